"""Which broker keys stand behind a topic's key, and which broker keys stand for each other.

A topic's value that is not set comes from the broker, under another name and sometimes in another unit:
`retention.ms` from `log.retention.ms`, else `log.retention.minutes`, else `log.retention.hours`.
"""

from typing import Final, NamedTuple


class Synonym(NamedTuple):
    """A broker's key that stands for a topic's; its value times `factor` is the topic's value."""

    name: str
    factor: int = 1


_MINUTE: Final = 60_000
_HOUR: Final = 60 * _MINUTE


def _single(name: str) -> tuple[Synonym, ...]:
    return (Synonym(name),)


# In order of precedence. Topic keys that are not here (the remote tier's, throttled replicas) have no broker default.
TOPIC_SYNONYMS: Final[dict[str, tuple[Synonym, ...]]] = {
    "segment.bytes": _single("log.segment.bytes"),
    "segment.ms": (Synonym("log.roll.ms"), Synonym("log.roll.hours", _HOUR)),
    "segment.jitter.ms": (Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", _HOUR)),
    "segment.index.bytes": _single("log.index.size.max.bytes"),
    "flush.messages": _single("log.flush.interval.messages"),
    "flush.ms": (Synonym("log.flush.interval.ms"), Synonym("log.flush.scheduler.interval.ms")),
    "retention.bytes": _single("log.retention.bytes"),
    "retention.ms": (
        Synonym("log.retention.ms"),
        Synonym("log.retention.minutes", _MINUTE),
        Synonym("log.retention.hours", _HOUR),
    ),
    "max.message.bytes": _single("message.max.bytes"),
    "index.interval.bytes": _single("log.index.interval.bytes"),
    "delete.retention.ms": _single("log.cleaner.delete.retention.ms"),
    "min.compaction.lag.ms": _single("log.cleaner.min.compaction.lag.ms"),
    "max.compaction.lag.ms": _single("log.cleaner.max.compaction.lag.ms"),
    "file.delete.delay.ms": _single("log.segment.delete.delay.ms"),
    "min.cleanable.dirty.ratio": _single("log.cleaner.min.cleanable.ratio"),
    "cleanup.policy": _single("log.cleanup.policy"),
    "unclean.leader.election.enable": _single("unclean.leader.election.enable"),
    "min.insync.replicas": _single("min.insync.replicas"),
    "compression.type": _single("compression.type"),
    "compression.gzip.level": _single("compression.gzip.level"),
    "compression.lz4.level": _single("compression.lz4.level"),
    "compression.zstd.level": _single("compression.zstd.level"),
    "preallocate": _single("log.preallocate"),
    "message.timestamp.type": _single("log.message.timestamp.type"),
    "message.timestamp.before.max.ms": _single("log.message.timestamp.before.max.ms"),
    "message.timestamp.after.max.ms": _single("log.message.timestamp.after.max.ms"),
    "local.retention.ms": _single("log.local.retention.ms"),
    "local.retention.bytes": _single("log.local.retention.bytes"),
}

# Keys that share a meaning, in order of precedence. `log.flush.scheduler.interval.ms` is not here: it stands behind
# `log.flush.interval.ms`, and not the other way round.
_FAMILIES: Final = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
_BROKER_SYNONYMS: Final[dict[str, tuple[str, ...]]] = {
    **{name: family for family in _FAMILIES for name in family},
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
}

_LISTENER_PREFIX: Final = "listener.name."
# These are set per listener and mechanism: `listener.name.<listener>.<mechanism>.<key>`.
_PER_MECHANISM: Final = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)


def broker_synonyms(name: str) -> tuple[str, ...]:
    """The broker keys that share `name`'s meaning, itself among them, in order of precedence."""
    return _BROKER_SYNONYMS.get(name, (name,))


def broker_synonyms_with_base(name: str) -> tuple[str, ...]:
    """As `broker_synonyms`; a `listener.name.<listener>.<key>` is followed by the key that it overrides."""
    base = listener_base(name)
    if base is None:
        return broker_synonyms(name)
    return name, next((key for key in _PER_MECHANISM if base.endswith(key)), base)


def listener_base(name: str) -> str | None:
    """What stands behind the prefix `listener.name.<listener>.`; None where `name` has no such prefix."""
    if not name.startswith(_LISTENER_PREFIX):
        return None
    _, dot, base = name.removeprefix(_LISTENER_PREFIX).partition(".")
    return base if dot else None
