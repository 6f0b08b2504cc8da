"""Lines of text as records."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cli.kafka_tools.line_reader import LineError, LineReader, LineSplitter


def read(line: bytes, **properties: str) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]:
    return LineReader({name.replace("_", "."): value for name, value in properties.items()}).read(line)


def test_a_line_is_a_value_unless_it_has_a_key_and_headers() -> None:
    assert read(b"a\tb") == (None, b"a\tb", [])
    assert read(b"a\tb\tc", parse_key="true") == (b"a", b"b\tc", [])
    assert read(b"k::v", parse_key="true", key_separator="::") == (b"k", b"v", [])
    assert read(b"a:1,b:\tv", parse_headers="true") == (None, b"v", [("a", b"1"), ("b", b"")])
    assert read(b"a:1\tk\tv", parse_headers="true", parse_key="true") == (b"k", b"v", [("a", b"1")])
    assert read(
        b"a=1;b=2|v", parse_headers="true", headers_delimiter="|", headers_separator=";", headers_key_separator="="
    ) == (
        None,
        b"v",
        [("a", b"1"), ("b", b"2")],
    )


def test_the_null_marker_replaces_keys_values_and_headers() -> None:
    null = {"null_marker": "NULL"}
    assert read(b"NULL", **null) == (None, None, [])
    assert read(b"NULL\tNULL", parse_key="true", **null) == (None, None, [])
    assert read(b"a:NULL\tv", parse_headers="true", **null) == (None, b"v", [("a", None)])
    assert read(b"NULL\tv", parse_headers="true", **null) == (None, b"v", [])
    with pytest.raises(LineError, match="Header keys should not be equal"):
        read(b"NULL:1\tv", parse_headers="true", **null)


def test_a_missing_separator_is_an_error_unless_it_is_ignored() -> None:
    with pytest.raises(LineError, match=r"^No key separator found on line number 1: 'v'$"):
        read(b"v", parse_key="true")
    with pytest.raises(LineError, match=r"^No header key separator found in pair 'a' on line number 1$"):
        read(b"a\tv", parse_headers="true")
    assert read(b"v", parse_key="true", ignore_error="true") == (None, b"v", [])
    assert read(b"a\tv", parse_headers="true", ignore_error="true") == (None, b"v", [("a", None)])


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"headers_delimiter": ","}, "headers.delimiter and headers.separator may not be equal"),
        ({"headers_separator": ":"}, "headers.separator and headers.key.separator may not be equal"),
        ({"null_marker": "\t"}, "null.marker and key.separator may not be equal"),
        ({"headers_separator": "("}, "headers.separator is an invalid regex"),
    ],
)
def test_properties_that_contradict_each_other_are_refused(properties: dict[str, str], message: str) -> None:
    with pytest.raises(LineError, match=message):
        read(b"", **properties)


@given(st.binary(), st.lists(st.integers(0, 100)))
def test_lines_do_not_depend_on_the_chunks_they_come_in(text: bytes, cuts: list[int]) -> None:
    splitter = LineSplitter()
    places = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    lines = [line for start, end in pairwise(places) for line in splitter.feed(text[start:end])]
    lines += splitter.finish()
    whole = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    assert lines == (whole.removesuffix(b"\n").split(b"\n") if whole else [])
