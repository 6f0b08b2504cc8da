"""WriteTxnMarkers (key 27): a transaction coordinator ends transactions in partitions that this broker leads.

Administrators also end hanging transactions by it (KIP-664).
"""

from typing import Final, NamedTuple

from broker.coordinator.runtime.completion import completed, gather
from broker.coordinator.runtime.transaction_marker import TransactionMarker
from broker.coordinator.transaction.marker_writer import Outcome
from broker.server.authorizer import CLUSTER_NAME
from broker.server.context import BrokerContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work
from broker.wire.api.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from broker.wire.errors import ErrorCode
from metadata.protocol import AclOperation, ResourceType

# Markers that are appended in one step: some 5 ms.
_STEP_MARKERS: Final = 100


class _Written(NamedTuple):
    """A marker's part of the response, and its outcome."""

    result: WritableTxnMarkerPartitionResult
    outcome: Outcome


def write_txn_markers(context: BrokerContext, request: WriteTxnMarkersRequest) -> Work[WriteTxnMarkersResponse]:
    response = WriteTxnMarkersResponse()
    places = [_results_of(marker, response) for marker in request.markers]
    is_allowed = any(
        context.allows(operation, ResourceType.CLUSTER, CLUSTER_NAME)
        for operation in (AclOperation.CLUSTER_ACTION, AclOperation.ALTER)
    )
    wanted = [
        (marker, topic, result)
        for marker, topics in zip(request.markers, places, strict=True)
        for topic in topics
        for result in topic.partitions
    ]
    written: list[_Written] = []
    for first in range(0, len(wanted), _STEP_MARKERS):
        if first:
            yield None
        for marker, topic, result in wanted[first : first + _STEP_MARKERS]:
            outcome = (
                _write(context, marker, topic.name, result.partition_index)
                if is_allowed
                else completed(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            )
            written.append(_Written(result, outcome))
    yield from gather([each.outcome for each in written])
    for each in written:
        each.result.error_code = each.outcome.outcome
    return response


def _results_of(marker: WritableTxnMarker, response: WriteTxnMarkersResponse) -> list[WritableTxnMarkerTopicResult]:
    """The results for a marker's topics, which are added to the response."""
    topics = [
        WritableTxnMarkerTopicResult(
            name=topic.name,
            partitions=[WritableTxnMarkerPartitionResult(partition_index=index) for index in topic.partition_indexes],
        )
        for topic in marker.topics
    ]
    response.markers.append(WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics))
    return topics


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
