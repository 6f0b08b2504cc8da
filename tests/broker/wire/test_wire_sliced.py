"""Sliced decoders and encoders give the same results as the others, step by step."""

from collections.abc import Generator
from random import Random
from typing import Any

import pytest

from broker.wire.api import APIS, Api
from broker.wire.api.describe_groups import DescribeGroupsRequest
from broker.wire.api.list_groups import ListedGroup, ListGroupsResponse
from broker.wire.codec import decode, encode, sliced_decoder, sliced_encoder
from broker.wire.errors import WireError
from tests.broker.wire.test_wire_fuzz import mutate
from tests.support.wire_messages import random_message, versions_of


def finish(steps: Generator[None, None, Any]) -> tuple[Any, int]:
    """Run a generator. Returns its result, and the number of its yields."""
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as stopped:
            return stopped.value, count
        count += 1


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_sliced_codec_agrees_with_the_plain_one(api: Api) -> None:
    for version, kind in versions_of(api):
        check_sliced_codec(api, version, kind)


def check_sliced_codec(api: Api, version: int, kind: str) -> None:
    cls = getattr(api, kind)
    rng = Random(f"{api.name} {version} {kind}")
    for _ in range(5):
        encoded = b"".join(encode(random_message(cls, version, version >= api.flexible_from, rng), version))
        (message, end), _ = finish(sliced_decoder(cls, version)(encoded))
        assert end == len(encoded)
        assert b"".join(finish(sliced_encoder(cls, version)(message))[0]) == encoded
        mutant = bytes(mutate(encoded, rng))
        assert _end(cls, version, mutant) == _sliced_end(cls, version, mutant)


def test_sliced_codec_yields_often_and_joins_small_parts() -> None:
    names = [f"group-{number}" for number in range(20_000)]
    request = b"".join(encode(DescribeGroupsRequest(groups=names), 5))
    (decoded, _), steps = finish(sliced_decoder(DescribeGroupsRequest, 5)(request))
    assert decoded.groups == names
    assert steps > 250
    response = ListGroupsResponse(groups=[ListedGroup(group_id=name, protocol_type="consumer") for name in names])
    parts, steps = finish(sliced_encoder(APIS[16].response, 4)(response))
    assert steps > 250
    assert len(parts) < 1200
    assert b"".join(parts) == b"".join(encode(response, 4))


def _end(cls: type[Any], version: int, data: bytes) -> int | None:
    """The end of the message; None if the bytes are not a message."""
    try:
        return decode(cls, version, data)[1]
    except WireError:
        return None


def _sliced_end(cls: type[Any], version: int, data: bytes) -> int | None:
    try:
        (_, end), _ = finish(sliced_decoder(cls, version)(data))
    except WireError:
        return None
    assert isinstance(end, int)
    return end
