"""Regular expressions of subscriptions: the common syntax matches like Python's, in bounded time."""

import re
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from metadata.regex.matching import RegexError, compile_regex

ATOMS = st.sampled_from(
    ["a", "B", "0", "_", "-", ".", r"\.", "[ab]", "[^a]", "[a-z0-9]", "[^-.]", r"\d", r"\w", r"\W", "^", "$", r"\b"]
)
NAMES = st.text(alphabet="abB01_.-", max_size=7)


def _grown(expressions: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    groups = expressions.map("(?:{})".format)
    signs = st.sampled_from(["*", "+", "?", "*?", "+?", "{2}", "{1,3}", "{2,}", "{0}"])
    return st.one_of(
        st.tuples(expressions, expressions).map("".join),
        st.tuples(expressions, expressions).map("(?:{0[0]}|{0[1]})".format),
        st.tuples(groups, signs).map("".join),
        groups.map("(?i:{})".format),
    )


@given(expression=st.recursive(ATOMS, _grown, max_leaves=8), names=st.lists(NAMES, min_size=5))
@example(expression="(?:a|ab)(?:c|bcd)(?:d*)", names=["abcd", "ab", "acd"])
def test_common_syntax_matches_as_in_python(expression: str, names: list[str]) -> None:
    ours, other = compile_regex(expression), re.compile(expression)
    assert {name: ours.matches(name) for name in names} == {name: other.fullmatch(name) is not None for name in names}


@pytest.mark.parametrize(
    ("expression", "matching", "other"),
    [
        ("", [""], ["a"]),
        ("orders|payments", ["orders", "payments"], ["orders2", "payment"]),
        ("^orders-.*", ["orders-", "orders-eu"], ["my-orders-eu"]),
        (r"\Qa.b+\E.*", ["a.b+"], ["axb+"]),
        ("[[:alpha:]]+[^[:digit:]]", ["ab-"], ["ab1"]),
        (r"(?P<name>a)(?<other>b)", ["ab"], ["a"]),
        (r"(?i)ORDERS(?-i)A", ["ordersA"], ["ordersa"]),
        (r"\x61\x{62}\143", ["abc"], ["abd"]),
        ("a{,2}", ["a{,2}"], ["aa"]),
        (r"\Aa\z", ["a"], ["ab"]),
        ("[]a]+", ["]a"], ["b"]),
        ("(?i)[^A]", ["b"], ["a", "A"]),
    ],
)
def test_syntax_of_re2(expression: str, matching: list[str], other: list[str]) -> None:
    regex = compile_regex(expression)
    assert [name for name in matching if not regex.matches(name)] == []
    assert [name for name in other if regex.matches(name)] == []


@pytest.mark.parametrize(
    "expression",
    [
        *("(", "a)", "[a", "*", "a**", "(?=a)", r"(a)\1", r"\pN", "a{1001}", "a{3,2}", "[b-a]", "\\", "(?x:a)"),
        *("((a{99}){99}){99}", "(" * 500 + ")" * 500, r"\xZZ", "[[:nothing:]]", r"[\q]", "(?P<1>a)"),
    ],
)
def test_unsupported_or_invalid_syntax_is_refused(expression: str) -> None:
    with pytest.raises(RegexError):
        compile_regex(expression)


def test_nested_repetition_matches_in_linear_time() -> None:
    """A backtracking matcher would need exponential time."""
    regex = compile_regex("(a+)+(a|aa)*b")
    assert not regex.matches("a" * 249)
    assert regex.matches("a" * 248 + "b")


@given(expression=st.text(max_size=20))
def test_any_text_compiles_or_raises_regex_error(expression: str) -> None:
    with suppress(RegexError):
        compile_regex(expression).matches("topic-1")
