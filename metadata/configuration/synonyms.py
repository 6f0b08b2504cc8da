"""The broker keys that provide the default of a topic's key, and synonyms among broker keys.

The default of a topic's key is the broker's value, under another name and sometimes in another unit: for
`retention.ms` it is `log.retention.ms`, else `log.retention.minutes`, else `log.retention.hours`.
"""

from typing import Final

from metadata.configuration.broker import BROKER_CONFIGS, broker_key
from metadata.configuration.broker_keys.log import LogConfigs
from metadata.configuration.definition import Scope, Synonym
from metadata.configuration.topic import TOPIC_CONFIGS

# In order of precedence. Topic keys that are not here (the remote tier's, throttled replicas) have no broker default.
TOPIC_SYNONYMS: Final[dict[str, tuple[Synonym, ...]]] = {
    key.name: key.synonyms for key in TOPIC_CONFIGS.keys.values() if key.synonyms
}

# Keys that share a meaning, in order of precedence. `log.flush.scheduler.interval.ms` has no family: it is the default
# of `log.flush.interval.ms`, and not the other way round.
_FAMILIES: Final = [tuple(synonym.name for synonym in synonyms) for synonyms in TOPIC_SYNONYMS.values()]
_BROKER_SYNONYMS: Final[dict[str, tuple[str, ...]]] = {
    name: family for family in _FAMILIES for name in family if name != LogConfigs.log_flush_scheduler_interval_ms.name
}

_LISTENER_PREFIX: Final = "listener.name."
_PER_MECHANISM: Final = tuple(key.name for key in BROKER_CONFIGS.keys.values() if key.scope is Scope.MECHANISM)


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
    """`name` without its prefix `listener.name.<listener>.`; None without such a prefix."""
    if not name.startswith(_LISTENER_PREFIX):
        return None
    _, dot, base = name.removeprefix(_LISTENER_PREFIX).partition(".")
    return base if dot else None


def is_secret(name: str) -> bool:
    """True if the value of a broker's config of this name is a secret, also of one listener or mechanism."""
    base = broker_key(broker_synonyms_with_base(name)[-1])
    return base is not None and base.is_sensitive
