"""WriteTxnMarkers (key 27): a transaction coordinator ends transactions in partitions that this broker leads.

Administrators also end hanging transactions by it (KIP-664).
"""

from typing import Final

from broker.coordinator.runtime.completion import completed
from broker.coordinator.runtime.transaction_marker import TransactionMarker
from broker.coordinator.transaction.marker_writer import Outcome
from broker.server.context import BrokerContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work
from broker.server.slices import consumed
from broker.wire.api.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from broker.wire.errors import ErrorCode
from metadata.protocol import AclOperation

# Markers that are appended in one step: some 0.5 ms. The first steps are taken in one turn of the connection, whatever
# they take: 30 ms with 100 markers in each.
_STEP_MARKERS: Final = 10
_STEP_OUTCOMES: Final = 1000
_UNAUTHORIZED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def write_txn_markers(context: BrokerContext, request: WriteTxnMarkersRequest) -> Work[WriteTxnMarkersResponse]:
    is_allowed = context.allows_cluster(AclOperation.ALTER, is_tried=False) or context.allows_cluster(
        AclOperation.CLUSTER_ACTION
    )
    response = WriteTxnMarkersResponse()
    written: list[tuple[WritableTxnMarkerPartitionResult, Outcome]] = []
    for marker in request.markers:
        marker_result = WritableTxnMarkerResult(producer_id=marker.producer_id)
        response.markers.append(marker_result)
        for topic in marker.topics:
            topic_result = WritableTxnMarkerTopicResult(name=topic.name)
            marker_result.topics.append(topic_result)
            for index in topic.partition_indexes:
                outcome = _write(context, marker, topic.name, index) if is_allowed else completed(_UNAUTHORIZED)
                result = WritableTxnMarkerPartitionResult(partition_index=index)
                topic_result.partitions.append(result)
                written.append((result, outcome))
                if not len(written) % _STEP_MARKERS:
                    yield None
    for number, (result, outcome) in enumerate(consumed(written), 1):
        result.error_code = yield from outcome
        if not number % _STEP_OUTCOMES:
            yield None
    return response


def _write(context: BrokerContext, marker: WritableTxnMarker, topic: str, index: int) -> Outcome:
    return context.services.transaction_markers.write(
        TransactionMarker(
            marker.producer_id,
            marker.producer_epoch,
            marker.transaction_result,
            marker.coordinator_epoch,
            marker.transaction_version,
        ),
        (topic, index),
    )


HANDLER = Handler(WriteTxnMarkersRequest, write_txn_markers, request_bytes_max=REQUEST_BYTES_MAX, concurrent=True)
