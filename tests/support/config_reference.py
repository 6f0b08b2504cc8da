"""Generates docs/configs.md, the reference of a node's configs, from the definitions of the keys: `make docs`."""

from collections.abc import Iterator
from typing import Any, Final

from metadata.configuration import (
    BROKER_CONFIGS,
    DYNAMIC_ONLY_CONFIGS,
    GROUP_CONFIGS,
    TOPIC_CONFIGS,
    ConfigKey,
)
from metadata.configuration.definition import Required, value_text

_HEAD: Final = """# The configs of a node

Every config of Kafka 4.4's brokers and topics, and of its consumer groups. This page is made by `make docs` from the
definitions in `metadata/configuration`, and a test checks that it is up to date.
[compatibility.md](compatibility.md#configs) describes the differences from Kafka.

All configs are parsed, validated and described. Those in the tables take effect.
"""
_BROKERS: Final = """
## Brokers and controllers

Set in `server.properties`. The column "update" says how a config is changed while a node runs: for one broker
(per-broker), for one or all brokers (cluster-wide), or not at all (read-only). Read-only configs need a restart.
"""
_DYNAMIC_ONLY: Final = """
## Brokers, while they run

Never read from a file: set with `kraft configs` or an admin client.
"""
_TOPICS: Final = """
## Topics

The default of a topic's config is the value of the broker's config in the column "default", if there is one.
"""
_GROUPS: Final = """
## Groups

The default of a group's config is the value of the broker's config in the column "default".
"""


def config_reference() -> str:
    """The page as Markdown."""
    broker, dynamic_only = list(BROKER_CONFIGS.keys.values()), list(DYNAMIC_ONLY_CONFIGS.keys.values())
    topic, group = list(TOPIC_CONFIGS.keys.values()), list(GROUP_CONFIGS.keys.values())
    return "\n".join(
        [
            _HEAD + _BROKERS,
            *_table(broker),
            *_without_effect(broker),
            _DYNAMIC_ONLY,
            *_table(dynamic_only),
            *_without_effect(dynamic_only),
            _TOPICS,
            *_table(topic),
            *_without_effect(topic),
            _GROUPS,
            *_table(group),
            *_without_effect(group),
            "",
        ]
    )


def _table(keys: list[ConfigKey[Any]]) -> Iterator[str]:
    is_of_brokers = not any(key.synonyms for key in keys)
    yield f"| config | type | default |{' update |' if is_of_brokers else ''} meaning |"
    yield f"|---|---|---|{'---|' if is_of_brokers else ''}---|"
    for key in sorted(keys, key=lambda key: key.name):
        if key.takes_effect and not key.internal:
            update = f" {key.update_mode.value} |" if is_of_brokers else ""
            yield f"| `{key.name}` | {key.described_type.name.lower()} | {_default(key)} |{update} {key.doc} |"


def _without_effect(keys: list[ConfigKey[Any]]) -> Iterator[str]:
    names = sorted(key.name for key in keys if not key.takes_effect and not key.internal)
    if names:
        yield f"\nWithout effect: {', '.join(f'`{name}`' for name in names)}."


def _default(key: ConfigKey[Any]) -> str:
    if key.synonyms:
        return ", ".join(f"`{synonym.name}`" for synonym in key.synonyms)
    if isinstance(key.default, Required):
        return "required"
    if key.default in (None, "", ()):
        return ""
    return f"`{value_text(key.default)}`"


if __name__ == "__main__":
    print(config_reference(), end="")
