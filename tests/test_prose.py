"""A ratchet on words: counts of unclear words and sentence openings, by package, may only fall."""

from collections import defaultdict

import pytest

from tests.support import prose
from tests.support.prose import findings, python_prose, read_counts, sentences_of


def test_no_count_of_a_word_rises() -> None:
    recorded, sentences = read_counts(), defaultdict[tuple[str, str], list[str]](list)
    for package, rule, text in findings():
        sentences[package, rule].append(text)
    risen = [
        f"{package} {rule}: {len(texts)}, was {recorded.get((package, rule), 0)}: {texts}"
        for (package, rule), texts in sorted(sentences.items())
        if len(texts) > recorded.get((package, rule), 0)
    ]
    assert not risen, "\n".join(
        [
            "Say these sentences with a noun of the domain as their subject, and with the field's own words:",
            *risen,
            f"If prose has moved from one package to another, move its number in {prose.COUNTS.name} too.",
            "After counts have fallen, `python -m tests.support.prose` lowers the numbers.",
        ]
    )


def test_the_counts_are_sorted_and_positive() -> None:
    recorded = read_counts()
    assert list(recorded) == sorted(recorded)
    assert all(count > 0 for count in recorded.values())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"""A follower. Who waits, waits. What it holds."""', ["A follower.", "Who waits, waits.", "What it holds."]),
        ("# One\n# sentence.\nx = 1  # another", ["One sentence.", "another"]),
        ('def f():\n    """Inner."""', ["Inner."]),
        ('x = "# no comment. "', []),
    ],
)
def test_prose_is_docstrings_and_comments(text: str, expected: list[str]) -> None:
    assert [sentence for part in python_prose(text) for sentence in sentences_of(part)] == expected
