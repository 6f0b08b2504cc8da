"""AddPartitionsToTxn with thousands of partitions, whose response is built in steps."""

from pathlib import Path

from broker.wire.api.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from broker.wire.errors import ErrorCode
from tests.support.running_node import running_node
from tests.support.wire_client import connected, only

PARTITIONS = 12_000


async def test_long_request_is_answered_for_each_partition_in_order(tmp_path: Path) -> None:
    indexes = list(reversed(range(PARTITIONS)))
    topics = [AddPartitionsToTxnTopic(name="missing", partitions=indexes)]
    of_broker = AddPartitionsToTxnTransaction(transactional_id="id", topics=topics)
    async with running_node(tmp_path) as node, connected(node.port) as client:
        answer = await client.call(AddPartitionsToTxnRequest(transactions=[of_broker]), 5)
        found = only(only(answer.results_by_transaction).topic_results)
        by_client = AddPartitionsToTxnRequest(v3_and_below_transactional_id="id", v3_and_below_topics=topics)
        found_by_client = only((await client.call(by_client, 3)).results_by_topic_v3_and_below)
    for result in (found, found_by_client):
        assert [each.partition_index for each in result.results_by_partition] == indexes
        codes = {each.partition_error_code for each in result.results_by_partition}
        assert codes == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
