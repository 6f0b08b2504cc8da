"""Finds the name that the author of a test may have meant, for the errors of misspelt ones."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

# Names that differ in more than about half of their letters are no help.
_LIKENESS_MIN: Final = 0.5
# Kafka's exceptions in Java have other names than its errors: NotLeaderOrFollowerException.
_ENDINGS: Final = ("exception", "error")


def nearest_name(name: str, names: Iterable[str]) -> str | None:
    """The one of `names` that is most like `name`, whatever its case and punctuation; None if none is like it."""
    folded: dict[str, str] = {}
    for each in names:
        folded.setdefault(_fold(each), each)
    wanted = _fold(name)
    if wanted in folded:
        return folded[wanted]
    longer = [each for each in folded if wanted and each.startswith(wanted)]  # a topic has a suffix after its name
    close = longer[:1] or get_close_matches(wanted, list(folded), n=1, cutoff=_LIKENESS_MIN)
    return folded[close[0]] if close else None


def suggestion(name: str, names: Iterable[str]) -> str:
    """The end of an error's sentence, which tells the nearest name; empty if none is like it."""
    nearest = nearest_name(name, names)
    return "" if nearest is None else f"; the nearest name is {nearest}"


def _fold(name: str) -> str:
    letters = "".join(each for each in name.casefold() if each.isalnum())
    for ending in _ENDINGS:
        letters = letters.removesuffix(ending)
    return letters
