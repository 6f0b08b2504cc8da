"""The differential search finds a bug that is planted into one of two nodes of ours, and nothing without it."""

from itertools import chain, repeat
from pathlib import Path
from typing import Final

import pytest

from broker.handlers import describe_producers
from broker.storage.producer_state import ProducerState
from broker.wire.api.describe_producers import ProducerState as DescribedProducer
from tests.differential.families.transactions import Transactions
from tests.differential.search import Search
from tests.differential.servers import CONFIGS, Ports
from tests.support.node_process import NodeProcess
from tests.support.running_node import running_node

_SEQUENCES: Final = 3


def _describe_wrongly(state: ProducerState) -> DescribedProducer:
    return DescribedProducer(
        producer_id=state.producer_id,
        producer_epoch=state.epoch,
        last_sequence=state.last_sequence + 1,
        last_timestamp=state.last_timestamp,
        coordinator_epoch=state.coordinator_epoch,
        current_txn_start_offset=state.current_txn_first_offset,
    )


async def test_planted_bug_is_found_and_shrunk_to_the_steps_that_show_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wrong node describes a producer as if its next batch had been written already: first once, then always."""
    process = NodeProcess(tmp_path / "reference", CONFIGS)
    try:
        process.start()
        configs = {key.replace(".", "_"): value for key, value in CONFIGS.items()}
        async with running_node(tmp_path / "planted", **configs) as node:
            ports = Ports(process.port, node.port, process.controller_port, node.controller_port)
            search = Search(Transactions(), ports, (), prefix="right-")
            await search.run(range(_SEQUENCES), workers=1)
            assert not search.findings, "\n".join(each.describe("transactions") for each in search.findings.values())

            described = describe_producers._describe_producer
            wrong = chain([_describe_wrongly], repeat(described))
            monkeypatch.setattr(describe_producers, "_describe_producer", lambda state: next(wrong)(state))
            search = Search(Transactions(), ports, (), prefix="once-")
            await search.run(range(_SEQUENCES), workers=1)
            assert (len(search.not_repeated), search.findings) == (1, {})

            monkeypatch.setattr(describe_producers, "_describe_producer", _describe_wrongly)
            search = Search(Transactions(), ports, (), prefix="wrong-")
            await search.run(range(_SEQUENCES), workers=1)
    finally:
        process.discard()
    (found,) = search.findings.values()
    assert found.difference.step_name == "DescribeProducers"
    assert [type(each.step).__name__ for each in found.kafka][-2:] == ["Produce", "DescribeProducers"]
    assert len(found.shrunk.kept) <= 3
    assert f"FIRST={found.seeds[0]} COUNT=1" in found.describe("transactions")
