"""Text from outside is rendered: nothing that a terminal obeys, nothing that looks like another line."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.printable import LOG_TEXT_MAX, printable, printable_block, printable_bytes, printable_json, shortened

ANY_TEXT = st.text(st.characters())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders-é-日本-🙂 a\\b", "orders-é-日本-🙂 a\\b"),
        ("a\nb\rc\td\0", "a\\nb\\rc\\td\\x00"),
        ("\x1b]0;x\x07\x1b[2J\x7f", "\\x1b]0;x\\x07\\x1b[2J\\x7f"),
        ("\x9b2J\x85", "\\x9b2J\\x85"),
        ("\u202eabc\u2066\u200b\u2028\ufeff", "\\u202eabc\\u2066\\u200b\\u2028\\ufeff"),
        ("\udc80\ud800", "\\udc80\\ud800"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_unprintable_characters_are_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(ANY_TEXT)
def test_rendered_text_is_printable_and_rendered_once(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert printable(shown) == shown


@given(st.binary())
def test_bytes_are_rendered_whatever_they_are(content: bytes) -> None:
    assert printable_bytes(content).isprintable()
    assert printable_bytes(b"\xff\xc3\xa9\n") == "\\xffé\\n"


@given(st.recursive(ANY_TEXT, lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT, inner)))
@pytest.mark.parametrize("is_ascii", [False, True])
def test_rendered_json_is_the_same_document(is_ascii: bool, value: object) -> None:
    document = printable_json(json.dumps(value, ensure_ascii=is_ascii, indent=2))
    assert all(line.isprintable() for line in document.split("\n"))
    assert json.loads(document) == json.loads(json.dumps(value))


def test_lines_of_a_block_cannot_be_taken_for_entries_of_a_log() -> None:
    assert printable_block("Traceback\nkraft: forged \x1b\n") == "Traceback\n    kraft: forged \\x1b"


def test_long_text_is_shortened_with_its_length() -> None:
    assert shortened("a" * LOG_TEXT_MAX) == "a" * LOG_TEXT_MAX
    assert shortened("a" * 32_767) == "a" * LOG_TEXT_MAX + "... (32767 characters)"
