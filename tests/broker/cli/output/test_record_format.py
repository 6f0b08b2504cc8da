"""Formats of `kraft consume -f`, the same as kcat's."""

import pytest

from broker.cli.output.record_format import compile_format
from broker.client.types import ConsumerRecord
from broker.wire.records import TimestampType

RECORD = ConsumerRecord(
    topic="orders",
    partition=3,
    offset=42,
    timestamp_ms=1_769_846_400_007,
    timestamp_type=TimestampType.CREATE_TIME,
    key=b"k\xff",
    value=b"value",
    headers=[("source", b"tour"), ("none", None)],
    leader_epoch=None,
)


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("", b""),
        ("%t %p %o", b"orders 3 42"),
        ("%k=%s", b"k\xff=value"),
        ("%K %S", b"2 5"),
        ("%T %D", b"1769846400007 2026-01-31 08:00:00.007"),
        ("%h", b"source=tour,none=NULL"),
        ("%e", b"-1"),
        ("100%%", b"100%"),
        (r"\n\t\r\0\x7f\\n", b"\n\t\r\0\x7f\\n"),
        ("ü %s", "ü value".encode()),
    ],
)
def test_tokens_stand_for_the_parts_of_a_record(text: str, output: bytes) -> None:
    assert compile_format(text)(RECORD) == output


def test_null_is_told_from_an_empty_text_by_its_length() -> None:
    tombstone = RECORD._replace(key=b"", value=None)
    assert compile_format("%k|%K %s|%S")(tombstone) == b"|0 NULL|-1"


@pytest.mark.parametrize("text", ["%", "%z", "\\", "\\q", "\\xg0", "\\x1"])
def test_a_token_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not an? (token|escape) of a format; the (tokens|escapes) are: "):
        compile_format(text)
