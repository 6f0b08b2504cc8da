"""Records as arguments of calls: those that a share consumer returns are accepted as they are."""

from typing import Any

import pytest

from broker.client import ShareRecord
from broker.client.arguments.annotations import check_of
from broker.client.arguments.check import WrongArgument
from broker.wire.records import TimestampType


def record(*headers: Any) -> Any:
    return ShareRecord("topic", 0, 0, 0, TimestampType.CREATE_TIME, b"key", None, headers, None, 1)


def test_record_with_headers_is_accepted() -> None:
    read = check_of(ShareRecord).read(record(("name", b"value"), ("name", None)))
    assert read.headers == [("name", b"value"), ("name", None)]


@pytest.mark.parametrize("header", [("name", "value"), ("name",), (b"name", b"value"), "name"])
def test_record_with_a_malformed_header_is_refused(header: object) -> None:
    with pytest.raises(WrongArgument):
        check_of(ShareRecord).read(record(header))
