"""Valid requests about transactions, of clients and of brokers, which tests mutate."""

from typing import Any

from broker.wire.api.add_offsets_to_txn import AddOffsetsToTxnRequest
from broker.wire.api.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from broker.wire.api.end_txn import EndTxnRequest
from broker.wire.api.init_producer_id import InitProducerIdRequest
from broker.wire.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from broker.wire.api.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest

ID, GROUP, PRODUCER_ID = "hostile-transaction", "hostile-transactional-group", 0


def transaction_messages(topic: str) -> list[tuple[Any, tuple[int, ...]]]:
    """Requests with the versions to send each in. Partitions are partition 0 of `topic`."""
    topics = [AddPartitionsToTxnTopic(name=topic, partitions=[0])]
    added = AddPartitionsToTxnTransaction(transactional_id=ID, producer_id=PRODUCER_ID, topics=topics)
    marker = WritableTxnMarker(
        producer_id=PRODUCER_ID, topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[0])]
    )
    offset = TxnOffsetCommitRequestPartition(committed_offset=1)
    return [
        (InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000), (0, 2, 3, 5)),
        (
            AddPartitionsToTxnRequest(
                transactions=[added],
                v3_and_below_transactional_id=ID,
                v3_and_below_producer_id=PRODUCER_ID,
                v3_and_below_topics=topics,
            ),
            (0, 3, 4, 5),
        ),
        (AddOffsetsToTxnRequest(transactional_id=ID, producer_id=PRODUCER_ID, group_id=GROUP), (0, 3, 4)),
        (EndTxnRequest(transactional_id=ID, producer_id=PRODUCER_ID, committed=True), (0, 3, 5)),
        (WriteTxnMarkersRequest(markers=[marker]), (1, 2)),
        (
            TxnOffsetCommitRequest(
                transactional_id=ID,
                group_id=GROUP,
                producer_id=PRODUCER_ID,
                topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[offset])],
            ),
            (0, 2, 3, 5),
        ),
    ]
