"""Records as lines of JSON: printed records can be written again, whatever bytes they contain."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cli.output.record_json import json_record, read_record
from broker.cli.output.shapes import to_json
from broker.client.types import ConsumerRecord
from broker.wire.records import TimestampType

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
CONTENT = st.none() | st.binary(max_size=20) | TEXT.map(str.encode)
HEADERS = st.lists(st.tuples(TEXT, CONTENT), max_size=3)


@given(CONTENT, CONTENT, HEADERS)
def test_a_printed_record_is_read_as_it_was(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    record = ConsumerRecord("t", 1, 2, 3, TimestampType.LOG_APPEND_TIME, key, value, headers, 4)
    line = to_json(json_record(record))
    assert "\n" not in line
    assert read_record(line.encode()) == (key, value, headers, 1, 3)


def test_absent_fields_of_a_line_are_null() -> None:
    assert read_record(b'{"value": "v"}') == (None, b"v", [], None, None)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"1",
        b'{"value": 1}',
        b'{"value_base64": 1}',
        b'{"value_base64": "a"}',
        b'{"headers": {}, "value": 1}',
        b'{"headers": 1}',
        b'{"headers": [1]}',
        b'{"headers": [{"value": "v"}]}',
        b'{"partition": -1}',
        b'{"partition": 1.5}',
        b'{"partition": true}',
        b'{"partition": 2147483648}',
        b'{"timestamp_ms": 9223372036854775808}',
        b'{"value": "\xff"}',
        b'{"value": "\\ud800"}',
        b'{"a": ' + b"[" * 100_000,
    ],
)
def test_a_line_that_is_no_record_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_record(line)
