import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.config.properties import parse_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a = b ", {"a": "b "}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a\t=\fb", {"a": "b"}),
        ("a = = b", {"a": "= b"}),
        ("a", {"a": ""}),
        ("=b", {"": "b"}),
        ("  a=1\n\t b=2", {"a": "1", "b": "2"}),
        ("# a=1\n  ! b=2\nc=3", {"c": "3"}),
        ("a=1 # not a comment", {"a": "1 # not a comment"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\r\nb=2\rc=3\n", {"a": "1", "b": "2", "c": "3"}),
        ("a=one,\\\n   two,\\\r\n\tthree", {"a": "one,two,three"}),
        ("a=one\\\\\nb=2", {"a": "one\\", "b": "2"}),
        ("a=one\\\\\\\n two", {"a": "one\\two"}),
        ("# comments do not continue\\\na=1", {"a": "1"}),
        ("a=1\\\n# joined", {"a": "1# joined"}),
        ("a=1\\\n\nb=2", {"a": "1", "b": "2"}),
        ("\\\n# a comment after all\nb=2", {"b": "2"}),
        ("a=1\\", {"a": "1"}),
        ("a\\=b\\:c\\ d=e", {"a=b:c d": "e"}),
        ("a=\\t\\n\\r\\f\\q\\\\", {"a": "\t\n\r\fq\\"}),
        ("a=\\u00e9\\u20AC", {"a": "é€"}),
        ("a=\\ud83d\\ude00", {"a": "😀"}),
        ("a=\\\\u0041", {"a": "\\u0041"}),
        ("", {}),
        ("\n \t\f\n", {}),
    ],
)
def test_java_properties_syntax_is_parsed(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text.encode()) == expected


def test_file_is_latin_1() -> None:
    assert parse_properties(b"caf\xe9=\x85") == {"café": "\x85"}


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\u00g0", "\\u"])
def test_malformed_escape_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"Malformed \\uxxxx encoding"):
        parse_properties(text.encode())


def spell(text: str, choose: st.DataObject, *, is_key: bool) -> str:
    """A random spelling of `text` in the syntax of properties."""
    spelled = []
    for index, char in enumerate(text):
        continuation = choose.draw(st.sampled_from(["", "", "", "\\\n", "\\\r\n \t", "\\\r"])) if index else ""
        units = char.encode("utf-16-be")
        ways = ["".join(f"\\u{units[i]:02x}{units[i + 1]:02X}" for i in range(0, len(units), 2))]
        if char in string.ascii_letters and char not in "tnrfu":
            ways += [char, f"\\{char}"]
        if char in "=:#! \\":
            ways.append(f"\\{char}")
        is_plain_in_values = char in "=:#!" or (char == " " and not continuation)
        if char in "tnrfu" or (is_plain_in_values and not is_key and index > 0):
            ways.append(char)
        spelled.append(continuation + choose.draw(st.sampled_from(ways)))
    return "".join(spelled)


TEXTS = st.text(st.sampled_from("abtnrfu=:#!\\é€😀\t\n") | st.characters(exclude_categories=["Cs"]), max_size=8)


@given(st.dictionaries(TEXTS.filter(bool), TEXTS, max_size=4), st.data())
def test_every_spelling_is_parsed_to_its_text(properties: dict[str, str], choose: st.DataObject) -> None:
    lines = []
    for key, value in properties.items():
        lines.append(choose.draw(st.sampled_from(["", "# comment\\", "   ! comment", "\t"])))
        separator = choose.draw(st.sampled_from(["=", ":", " = ", "\t:\f", " = \\\n  "]))
        indent = choose.draw(st.sampled_from(["", "  ", "\t"]))
        lines.append(indent + spell(key, choose, is_key=True) + separator + spell(value, choose, is_key=False))
    text = choose.draw(st.sampled_from(["\n", "\r\n", "\r"])).join([*lines, ""])
    assert parse_properties(text.encode("latin-1")) == properties


@given(st.binary(max_size=200))
def test_arbitrary_bytes_only_raise_value_error(data: bytes) -> None:
    try:
        properties = parse_properties(data)
    except ValueError:
        return
    assert all(isinstance(each, str) for pair in properties.items() for each in pair)
