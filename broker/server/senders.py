"""Tells brokers, clients and administrators apart by their requests. Pure.

Only connections beyond the limits are told apart (`broker.net.reserve`). A request may lie about its sender, as long as
clients are not authenticated: then it gets a place beyond the limits, and nothing else.
"""

from typing import Any, Final

from broker.net.connection import ProtocolError, Sender
from broker.wire.api import APIS
from broker.wire.codec import decode
from broker.wire.errors import WireError
from broker.wire.header import parse_request_header
from broker.wire.schema import Buffer

_FETCH: Final = 1
_ADD_PARTITIONS_TO_TXN: Final = 24
_WRITE_TXN_MARKERS: Final = 27
# Requests in which a follower names itself: Fetch, ListOffsets, OffsetForLeaderEpoch.
_OF_FOLLOWERS: Final = (_FETCH, 2, 23)
# From this version on, AddPartitionsToTxn is a request of a partition's leader.
_FROM_LEADERS: Final = 4
# The requests of producers and consumers: Produce, Fetch, ListOffsets, OffsetCommit, OffsetFetch, FindCoordinator,
# JoinGroup, Heartbeat, LeaveGroup, SyncGroup, InitProducerId, OffsetForLeaderEpoch, AddPartitionsToTxn,
# AddOffsetsToTxn, EndTxn, TxnOffsetCommit, ConsumerGroupHeartbeat, GetTelemetrySubscriptions, PushTelemetry,
# ShareGroupHeartbeat, ShareFetch, ShareAcknowledge.
_OF_CLIENTS: Final = frozenset({0, 1, 2, 8, 9, 10, 11, 12, 13, 14, 22, 23, 24, 25, 26, 28, 68, 71, 72, 76, 78, 79})


def sender_of(data: Buffer, start: int, end: int) -> Sender:
    """The sender of the request in `data[start:end]`. Raises ProtocolError for an undecodable request."""
    try:
        api_key, version, _, _, position = parse_request_header(data, start, end)
        if api_key == _WRITE_TXN_MARKERS or (api_key == _ADD_PARTITIONS_TO_TXN and version >= _FROM_LEADERS):
            return Sender.BROKER
        if api_key in _OF_FOLLOWERS and version in range(*_served(api_key)):
            request, _ = decode(APIS[api_key].request, version, data, position, end)
            return Sender.BROKER if _replica_id(request) >= 0 else Sender.CLIENT
    except WireError as error:
        raise ProtocolError(f"undecodable request: {error}") from error
    return Sender.CLIENT if api_key in _OF_CLIENTS else Sender.ANYONE


def _served(api_key: int) -> tuple[int, int]:
    first, last = APIS[api_key].request.__message__.versions
    return first, last + 1


def _replica_id(request: Any) -> int:
    state = getattr(request, "replica_state", None)
    return max(int(request.replica_id), -1 if state is None else int(state.replica_id))
