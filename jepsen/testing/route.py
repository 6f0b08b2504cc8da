"""One row of the table of the control port: a method and a path, the words of its request, and its answer."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import attrs

from jepsen.testing.errors import ActionRefused, ControlRefused, NotReached
from jepsen.testing.word_types import Word

# The refusals of requests that need nodes to answer.
NODES_REFUSE: Final = (ActionRefused, NotReached)
# The names in a path, such as that of a cluster.
_NAME: Final = re.compile(r"\{(\w+)\}")
_NAMES: Final = {"topic": r"[\w.-]+"}
_NAME_DEFAULT: Final = r"[\w-]+"


@attrs.frozen
class Variant:
    """The words of one kind of a request, which has exactly one of the words `one_of`."""

    words: Mapping[str, Word]
    one_of: Sequence[str] = ()


@attrs.frozen(slots=False, eq=False)
class Route:
    """`path` has names in braces. `answer` gets the cluster if the path begins with one, the other names of the path,
    and the `Words` of the request, which `words` declares.

    A request has exactly one of the words `one_of`, and at least one of `any_of`. With `variants`, the word `chooser`
    says which of them it is, and each has words of its own beside it. `answered` names the schema of the answer in
    `jepsen.testing.answer_schemas`. `operation` names the request for generated clients. `examples` are bodies that a
    cluster of three nodes takes whose topics "orders" and "payments" have records and readers.
    """

    method: str
    path: str
    operation: str
    summary: str
    answered: str
    answer: Callable[..., Awaitable[Any]]
    words: Mapping[str, Word] = attrs.field(factory=dict)
    one_of: Sequence[str] = ()
    any_of: Sequence[str] = ()
    chooser: str = ""
    variants: Mapping[str, Variant] = attrs.field(factory=dict)
    refusals: Sequence[type[ControlRefused]] = ()
    examples: Sequence[Mapping[str, Any]] = ()

    @property
    def has_body(self) -> bool:
        return bool(self.words)

    @cached_property
    def names(self) -> list[str]:
        """The names in the path."""
        return _NAME.findall(self.path)

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matches a path, with its names as groups."""
        pattern = re.escape(self.path).replace(r"\{", "{").replace(r"\}", "}")
        return re.compile(_NAME.sub(lambda name: f"({_NAMES.get(name[1], _NAME_DEFAULT)})", pattern), re.ASCII)


def union(variants: Mapping[str, Variant], chooser: str, meaning: str) -> Mapping[str, Word]:
    """The words of all variants of a request, and the word that chooses one, which alone all of them require."""
    words = {name: word for variant in variants.values() for name, word in variant.words.items()}
    optional = {name: attrs.evolve(word, required=False) for name, word in words.items()}
    return {chooser: Word.text(meaning, variants, required=True), **optional}
