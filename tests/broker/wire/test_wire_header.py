"""Request and response headers, and the response to an ApiVersions request of an unknown version."""

import io
from importlib import import_module

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.api_versions.v0.response import ApiVersionsResponse as KioApiVersionsResponse
from kio.schema.request_header.v1.header import RequestHeader as KioHeaderV1
from kio.schema.request_header.v2.header import RequestHeader as KioHeaderV2
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32

from broker.wire.api import APIS, Api
from broker.wire.api.api_versions import unsupported_version_response
from broker.wire.codec import encode
from broker.wire.errors import ErrorCode, WireError
from broker.wire.header import (
    encode_request_header,
    encode_response_header,
    parse_request_header,
    parse_response_header,
    request_header_version,
    response_header_version,
)
from tests.support.wire_messages import is_newer_than_kio


@given(
    st.sampled_from(list(APIS.values())), st.integers(0, 20), st.integers(-(2**31), 2**31 - 1), st.none() | st.text()
)
def test_kio_writes_the_header_that_we_read_and_write(
    api: Api, version: int, correlation_id: int, client_id: str | None
) -> None:
    key = api.key
    kio_header = KioHeaderV2 if request_header_version(key, version) == 2 else KioHeaderV1
    buffer = io.BytesIO()
    entity_writer(kio_header)(
        buffer,
        kio_header(
            request_api_key=i16(key),
            request_api_version=i16(version),
            correlation_id=i32(correlation_id),
            client_id=client_id,
        ),
    )
    encoded = buffer.getvalue()
    assert encode_request_header(key, version, correlation_id, client_id) == encoded
    framed = bytearray(b"frame" + encoded + b"body")
    assert parse_request_header(framed, 5) == (key, version, correlation_id, client_id, 5 + len(encoded))


def test_each_message_class_of_kio_uses_the_header_version_we_use() -> None:
    for api in APIS.values():
        for version in range(api.min_version, api.max_version + 1):
            if is_newer_than_kio(api, version):
                continue
            for kind, ours in (("request", request_header_version), ("response", response_header_version)):
                module = import_module(f"kio.schema.{api.module}.v{version}.{kind}")
                header = getattr(module, api.name + kind.capitalize()).__header_schema__
                assert ours(api.key, version) == header.__version__, (api.name, version, kind)


def test_tagged_fields_of_a_request_header_are_passed_over() -> None:
    plain = encode_request_header(18, 3, 7, "client")
    assert plain.endswith(b"\0")
    tagged = plain[:-1] + b"\2" + b"\0\3abc" + b"\x81\1\0"
    assert parse_request_header(tagged + b"body") == (18, 3, 7, "client", len(tagged))


def test_a_version_newer_than_any_has_the_newest_header() -> None:
    assert parse_request_header(encode_request_header(18, 99, 1, None) + b"?") == (18, 99, 1, None, 11)


def test_an_unknown_api_is_named_rather_than_refused() -> None:
    assert parse_request_header(b"\x03\xe7\0\0\0\0\0\5\xff\xff")[:3] == (999, 0, 5)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"\0\0\0\3\0\0\0\1\0",
        b"\0\0\0\3\0\0\0\1\0\5abc",
        b"\0\0\0\3\0\0\0\1\xff\xfe",
        b"\0\0\0\3\0\0\0\1\0\1\xff",
        b"\0\0\0\x0d\0\0\0\1\0\1a",
        b"\0\0\0\x0d\0\0\0\1\0\1a\1\0\x10",
        b"\0\0\0\x0d\0\0\0\1\0\1a\xff\xff\xff\xff\x0f",
    ],
    ids=["empty", "cut", "client id cut", "length -2", "no UTF-8", "no tags", "tag runs out", "many tags"],
)
def test_a_broken_request_header_is_a_wire_error(header: bytes) -> None:
    with pytest.raises(WireError):
        parse_request_header(header)


def test_the_header_may_not_reach_into_the_next_frame() -> None:
    header = encode_request_header(0, 3, 1, "client")
    with pytest.raises(WireError):
        parse_request_header(header + b"next frame", 0, len(header) - 1)


@pytest.mark.parametrize(("key", "version", "flexible"), [(0, 8, False), (0, 9, True), (18, 3, False), (18, 4, False)])
def test_response_headers(key: int, version: int, flexible: bool) -> None:
    header = encode_response_header(key, version, -7)
    assert len(header) == 4 + flexible
    assert parse_response_header(header, flexible) == (-7, len(header))


@pytest.mark.parametrize("header", [b"", b"\0\0\0", b"\0\0\0\0", b"\0\0\0\0\1\0"])
def test_a_broken_response_header_is_a_wire_error(header: bytes) -> None:
    with pytest.raises(WireError):
        parse_response_header(header, True)


def test_api_versions_of_an_unknown_version_is_answered_in_version_0_with_its_own_range() -> None:
    """KIP-511."""
    encoded = b"".join(encode(unsupported_version_response(0, 4), 0))
    answer, size = entity_reader(KioApiVersionsResponse)(encoded, 0)
    assert size == len(encoded)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(api.api_key, api.min_version, api.max_version) for api in answer.api_keys] == [(18, 0, 4)]
