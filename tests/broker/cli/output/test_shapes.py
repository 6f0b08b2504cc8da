"""The types of JSON output, in the words of the command reference."""

from typing import Any

import pytest

from broker.cli.output.shapes import describe_type


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (int | None, "integer or null"),
        (list[int], "list of integers"),
        (dict[str, list[int]], "object of lists of integers"),
        (list[list[str]], "list of lists of strings"),
        (list[dict[str, bool]], "list of objects of booleans"),
    ],
)
def test_nested_types_have_one_plural_each(hint: Any, words: str) -> None:
    assert describe_type(hint) == words
