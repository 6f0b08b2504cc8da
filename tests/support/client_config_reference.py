"""The part of docs/client-reference.md about config keys: types, defaults, and where Kafka's defaults differ."""

from collections.abc import Iterator
from typing import Any, Final, get_type_hints

import attrs

from broker.client.admin.config import AdminConfig, AdminSettings
from broker.client.config import ClientConfig
from broker.client.consumer.config import ConsumerConfig, ConsumerSettings
from broker.client.consumer.offset_reset import OffsetReset
from broker.client.producer.config import ProducerConfig, ProducerSettings
from broker.client.share_consumer.config import ShareConsumerConfig, ShareConsumerSettings

CLIENTS: Final = {
    "Keys of producers": (ProducerConfig, ProducerSettings),
    "Keys of consumers": (ConsumerConfig, ConsumerSettings),
    "Keys of share consumers": (ShareConsumerConfig, ShareConsumerSettings),
    "Keys of Admin": (AdminConfig, AdminSettings),
}
_KERNEL: Final = "the kernel sizes the buffer itself"

# The defaults of Kafka's Java clients that differ, by config class and key, with the reasons for ours.
KAFKA_DEFAULTS: Final[dict[str, dict[str, tuple[str, str]]]] = {
    "ClientConfig": {
        "client.id": ("`producer-1`, `consumer-<group>-1`, `adminclient-1`", "no name is made up"),
        "send.buffer.bytes": ("`131072`", _KERNEL),
        "receive.buffer.bytes": ("`32768` in producers, `65536` elsewhere", _KERNEL),
        "connections.max.idle.ms": ("`540000`; `300000` in Admin", "one default for all clients"),
    },
    "ProducerConfig": {
        "enable.idempotence": ("`true`", "None is true too, unless other keys that are set exclude it"),
    },
    "ConsumerConfig": {
        "group.protocol": ("`classic`", "None is `consumer` where the brokers have it (KIP-848), else `classic`"),
        "fetch.buffer.bytes": ("no such key", "bounds what is fetched ahead of the application"),
    },
    "ShareConsumerConfig": {},
    "AdminConfig": {},
}
_HEAD: Final = """## Config keys

A key is a keyword argument with underscores (`linger_ms=20`), or an entry of the dict `config` with dots
(`{"linger.ms": 20}`). Values may also be text, as in a properties file. Times are in milliseconds, sizes in bytes.
A key that does not exist raises ConfigError, which names the key that may have been meant. Names and defaults are
those of Kafka's Java clients; the last column has Kafka's default where ours differs, and why.

### Keys of all clients

"""


def config_reference() -> str:
    hints = get_type_hints(ProducerSettings)
    return "".join([_HEAD, *_table(ClientConfig, hints, inherited=frozenset()), *_tables()])


def _tables() -> Iterator[str]:
    inherited = frozenset(attrs.fields_dict(ClientConfig))
    for heading, (config, settings) in CLIENTS.items():
        yield f"### {heading}\n\n"
        yield from _table(config, get_type_hints(settings), inherited)


def _table(config: type[ClientConfig], hints: dict[str, Any], inherited: frozenset[str]) -> Iterator[str]:
    differing = KAFKA_DEFAULTS[config.__name__]
    yield "| key | type | default | Kafka's |\n|---|---|---|---|\n"
    for name, field in attrs.fields_dict(config).items():
        if name not in inherited:
            key = name.replace("_", ".")
            theirs = ": ".join(differing[key]) if key in differing else ""
            yield f"| `{key}` | `{_type_text(name, hints)}` | {_default(name, field.default)} | {theirs} |\n"
    yield "\n"


def _type_text(name: str, hints: dict[str, Any]) -> str:
    hint = hints.get(name, "str | Sequence[str]")  # the servers are a parameter of the constructors
    text = hint.__name__ if isinstance(hint, type) and not hasattr(hint, "__args__") else str(hint)
    for module in ("typing.", "collections.abc."):
        text = text.replace(module, "")
    return text.replace("|", "\\|")


def _default(name: str, default: object) -> str:
    if name in ("bootstrap_servers", "bootstrap_controllers"):
        return ""
    if isinstance(default, OffsetReset):
        return "`latest`"
    if name == "acks":
        return "`all`"
    if isinstance(default, tuple):
        return f"`{','.join(default)}`"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if isinstance(default, float):
        return f"`{default:g}`"
    return '`""`' if default == "" else f"`{default}`"
