"""The settings of one part of a node, taken from the node's configuration.

A part declares an attrs class, whose fields name the keys that they come from:

    @lazy_attrs.frozen
    class CleanerConfig:
        threads: int = from_key(BrokerConfigs.log_cleaner_threads)

    CleanerConfig()                        # the defaults of the keys
    settings_from(CleanerConfig, config)   # the values that are in force
"""

from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeVar

import attrs

from kraft import lazy_attrs
from metadata.configuration.definition import ConfigKey, ConfigValues, Required

T = TypeVar("T")
S = TypeVar("S")

_KEY: Final = "key"


def from_key(key: ConfigKey[T], converter: Callable[[Any], T] | None = None) -> T:
    """A field of an attrs class that has the key's default, and its value where `settings_from` makes the object."""
    default = attrs.NOTHING if isinstance(key.default, Required) else key.default
    field: Any = attrs.field(default=default, metadata={_KEY: key.name}, converter=converter)
    return field  # type: ignore[no-any-return]


def settings_from(settings: type[S], config: ConfigValues, **others: Any) -> S:
    """An instance of an attrs class with the values of its keys; `others` are fields that are not a key's value."""
    values = {name: config.values[key] for name, key in _keys_of(settings)}  # type: ignore[arg-type]
    return settings(**values | others)


@cache
def _keys_of(settings: type) -> tuple[tuple[str, str], ...]:
    """The fields of a class that are values of keys, with the names of their keys. A coordinator reads 50 at once."""
    fields = lazy_attrs.field_metadata(settings)
    return tuple((name, metadata[_KEY]) for name, metadata in fields.items() if _KEY in metadata)
