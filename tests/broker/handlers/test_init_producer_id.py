"""InitProducerId: every producer gets a unique id."""

from pathlib import Path
from typing import Any

import pytest

from broker.wire.api.init_producer_id import InitProducerIdRequest
from broker.wire.errors import ErrorCode
from tests.support.requests import batch, create_topic, produce
from tests.support.running_node import running_node
from tests.support.wire_client import WireClient, connected


async def init_producer_id(client: WireClient, version: int = 5, **fields: Any) -> Any:
    settings = {"transactional_id": None, "transaction_timeout_ms": 60_000, **fields}
    return await client.call(InitProducerIdRequest(**settings), version)


@pytest.mark.parametrize("version", range(6))
async def test_every_producer_gets_an_id_of_its_own(client: WireClient, version: int) -> None:
    answers = [await init_producer_id(client, version) for _ in range(3)]

    assert [(answer.error_code, answer.producer_epoch) for answer in answers] == [(0, 0)] * 3
    assert len({answer.producer_id for answer in answers}) == 3


async def test_ids_are_not_given_again_after_a_restart_nor_from_the_next_block(tmp_path: Path) -> None:
    ids: list[int] = []
    for crashes in (True, False, False):
        async with running_node(tmp_path) as node, connected(node.port) as client:
            requests = 1001 if crashes else 2
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
            await client.pipeline(*[(request, 4)] * requests)
            ids += [(await client.receive()).producer_id for _ in range(requests)]
            if crashes:
                node.crash()

    assert len(set(ids)) == len(ids) == 1005
    assert min(ids) >= 0


async def test_an_id_works(client: WireClient) -> None:
    await create_topic(client)
    answer = await init_producer_id(client)

    records = batch(b"value", producer_id=answer.producer_id, producer_epoch=answer.producer_epoch, base_sequence=0)
    assert [(await produce(client, records)).base_offset for _ in range(2)] == [0, 0]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"transactional_id": "tx"}, ErrorCode.NOT_COORDINATOR),
        ({"transactional_id": "tx", "transaction_timeout_ms": 0}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"transactional_id": "tx", "transaction_timeout_ms": 900_001}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"producer_id": 5}, ErrorCode.INVALID_REQUEST),
        ({"producer_epoch": 5}, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_invalid_init_producer_id_is_refused(client: WireClient, fields: dict[str, Any], code: ErrorCode) -> None:
    answer = await init_producer_id(client, **fields)

    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (code, -1, -1)


async def test_a_producer_that_had_an_id_gets_another(client: WireClient) -> None:
    """Only transactional producers keep their ids (KIP-360)."""
    answer = await init_producer_id(client, producer_id=12345, producer_epoch=3)

    assert (answer.error_code, answer.producer_epoch) == (0, 0)
    assert answer.producer_id != 12345
