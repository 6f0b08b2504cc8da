"""The words of the control port's requests as tables: the type, the default and the meaning of each.

`jepsen.testing.words.Words` takes a word only as its table declares it, and `jepsen.testing.openapi` describes the
tables as JSON Schema. So the description has the words that the server takes, and no others.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs

Schema: TypeAlias = Mapping[str, Any]

# Seconds: all waits and delays of a test are shorter.
NUMBER_MAX: Final = 1_000_000
_TOPIC: Final[Schema] = {"type": "string"}
_INDEX: Final[Schema] = {"type": "integer", "minimum": 0}


def _list_of(*items: Schema) -> Schema:
    return {"type": "array", "prefixItems": list(items), "minItems": len(items), "maxItems": len(items)}


PARTITION_SCHEMA: Final = _list_of(_TOPIC, _INDEX)


@attrs.frozen
class Word:
    """`taken_as` is the method of `Words` that takes it. A word that is not `required` may be missing or null."""

    taken_as: str
    schema: Schema
    meaning: str
    required: bool = False
    default: Any = None

    @classmethod
    def text(
        cls, meaning: str, choices: Iterable[str] = (), *, default: str | None = None, required: bool = False
    ) -> "Word":
        allowed = {"enum": list(choices)} if choices else {}
        return cls("text", {"type": "string", **allowed}, meaning, required, default)

    @classmethod
    def integer(
        cls,
        meaning: str,
        least: int | None = None,
        most: int | None = None,
        *,
        default: int | None = None,
        required: bool = False,
    ) -> "Word":
        bounds = {"minimum": least, "maximum": most}
        allowed = {name: bound for name, bound in bounds.items() if bound is not None}
        return cls("integer", {"type": "integer", **allowed}, meaning, required, default)

    @classmethod
    def number(cls, meaning: str, least: float = 0, *, default: float | None = None) -> "Word":
        return cls("number", {"type": "number", "minimum": least, "maximum": NUMBER_MAX}, meaning, False, default)

    @classmethod
    def true(cls, meaning: str) -> "Word":
        return cls("true", {"type": "boolean", "const": True}, meaning)

    @classmethod
    def texts(cls, meaning: str) -> "Word":
        value = {"type": ["string", "number", "boolean"]}
        return cls("texts", {"type": "object", "additionalProperties": value}, meaning, False, {})

    @classmethod
    def names(cls, meaning: str, choices: Iterable[str] = ()) -> "Word":
        allowed = {"enum": list(choices)} if choices else {}
        return cls("names", {"type": "array", "items": {"type": "string", **allowed}}, meaning, False, [])

    @classmethod
    def partition(cls, meaning: str) -> "Word":
        return cls("partition", PARTITION_SCHEMA, meaning)

    @classmethod
    def topic_or_partition(cls, meaning: str) -> "Word":
        return cls("topic_or_partition", {"oneOf": [_TOPIC, PARTITION_SCHEMA]}, meaning)

    @classmethod
    def named_numbers(cls, meaning: str, *, texts: int, numbers: int) -> "Word":
        return cls("named_numbers", _list_of(*[_TOPIC] * texts, *[_INDEX] * numbers), meaning)

    @classmethod
    def value(cls, meaning: str, schema: Schema) -> "Word":
        return cls("value", schema, meaning)

    @classmethod
    def items(cls, meaning: str, schema: Schema, *, required: bool = False) -> "Word":
        return cls("items", {"type": "array", "items": schema}, meaning, required)

    def described(self) -> Schema:
        """The word as JSON Schema has it."""
        default = {} if self.default is None else {"default": self.default}
        return {**self.schema, "description": self.meaning, **default}


def object_schema(words: Mapping[str, Word], one_of: Sequence[str] = (), any_of: Sequence[str] = ()) -> Schema:
    """An object with these words. It has exactly one of the words `one_of`, and at least one of the words `any_of`."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: word.described() for name, word in words.items()},
        "additionalProperties": False,
    }
    if required := [name for name, word in words.items() if word.required]:
        schema["required"] = required
    if one_of:
        schema["oneOf"] = [{"required": [name]} for name in one_of]
    if any_of:
        schema["anyOf"] = [{"required": [name]} for name in any_of]
    return schema
