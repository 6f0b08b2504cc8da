"""Takes the responses of leaders: acquired records, results of acknowledgements, new leaders, errors of partitions."""

from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import Any, Final

import trio

from broker.client.cluster import Cluster
from broker.client.consumer.fetch_errors import ANOTHER_LEADER, STALE, TRANSIENT
from broker.client.consumer.positions import AssignedPartition
from broker.client.consumer.subscription import SubscriptionState
from broker.client.errors import ConnectionLost, KafkaError, is_retriable
from broker.client.share_consumer.acknowledgements import Source
from broker.client.share_consumer.acquired_records import AcquiredPartition
from broker.client.share_consumer.leader import PendingAcknowledgement, ShareLeader
from broker.client.share_consumer.share_session import PartitionId
from broker.client.types import TopicPartition
from broker.printable import printable
from broker.wire.api.share_acknowledge import ShareAcknowledgeResponse
from broker.wire.api.share_fetch import PartitionData, ShareFetchResponse
from broker.wire.errors import ErrorCode, WireError

# After these errors the locks are gone: another leader delivers the records again, or there is none.
_FINAL: Final = ANOTHER_LEADER | {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}
_UNMENTIONED: Final = "the response does not mention the partition"


class ShareResponses:
    """See the module's docstring.

    `acquired` is called with the records of a partition, and `recheck` when a response has named a new leader.
    `lock_timeout_ms` is the acquisition lock timeout as the leaders report it.
    """

    def __init__(
        self,
        cluster: Cluster,
        subscription: SubscriptionState,
        acquired: Callable[[AcquiredPartition], None],
        recheck: Callable[[], None],
        *,
        check_crcs: bool,
    ) -> None:
        self._cluster = cluster
        self._subscription = subscription
        self._acquired = acquired
        self._recheck = recheck
        self._check_crcs = check_crcs
        self.lock_timeout_ms: int | None = None

    def take_fetched(
        self,
        leader: ShareLeader,
        response: ShareFetchResponse,
        wanted: Mapping[PartitionId, AssignedPartition],
        pending: Iterable[PendingAcknowledgement],
    ) -> None:
        """Takes a response to a request for `wanted` that carried `pending`."""
        self._note_lock_timeout(response)
        waiting = list(pending)
        names = {each.id: each.acknowledgement.source.partition for each in waiting}
        names.update({key: assigned.partition for key, assigned in wanted.items()})
        for topic in response.responses:
            for data in topic.partitions:
                key = PartitionId(topic.topic_id, data.partition_index)
                for each in [each for each in waiting if each.id == key]:
                    waiting.remove(each)
                    self._settle(leader, each, data.acknowledge_error_code, data.acknowledge_error_message)
                if key in names:
                    self._take_partition(leader, key, names[key], wanted.get(key), data)
        for each in waiting:
            each.settle(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, _UNMENTIONED))

    def take_acknowledged(
        self, leader: ShareLeader, response: ShareAcknowledgeResponse, pending: Iterable[PendingAcknowledgement]
    ) -> None:
        """Takes a response to a request that carried `pending`."""
        self._note_lock_timeout(response)
        found = {
            PartitionId(topic.topic_id, data.partition_index): data
            for topic in response.responses
            for data in topic.partitions
        }
        for each in pending:
            data = found.get(each.id)
            if data is None:
                each.settle(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, _UNMENTIONED))
                continue
            self._settle(leader, each, data.error_code, data.error_message)
            if data.error_code in ANOTHER_LEADER:
                self._take_leader(each.acknowledgement.source.partition, data)

    def _note_lock_timeout(self, response: ShareFetchResponse | ShareAcknowledgeResponse) -> None:
        if response.acquisition_lock_timeout_ms > 0:
            self.lock_timeout_ms = response.acquisition_lock_timeout_ms

    def _settle(self, leader: ShareLeader, pending: PendingAcknowledgement, code: int, message: str | None) -> None:
        """Ends an acknowledgement, or has it sent again after an error that may pass while the locks last."""
        if code == ErrorCode.NONE:
            pending.settle(None, self.lock_timeout_ms)
            return
        place = str(pending.acknowledgement.source.partition)
        error = KafkaError(ErrorCode.of(code), printable(message or "") or place)
        if is_retriable(code) and code not in _FINAL:
            pause_s = self._cluster.backoff.pause_s(pending.failures + 1)
            leader.retry(pending, error, trio.current_time() + pause_s)
        else:
            pending.settle(error)

    def _take_partition(
        self,
        leader: ShareLeader,
        key: PartitionId,
        partition: TopicPartition,
        assigned: AssignedPartition | None,
        data: PartitionData,
    ) -> None:
        if data.error_code != ErrorCode.NONE:
            self._refused(leader, partition, assigned, data)
            return
        if assigned is not None:
            assigned.last_failure = None
        if not data.acquired_records:
            return
        assert isinstance(data.records, bytes | memoryview), "fetched records are bytes"
        source = Source(leader.node_id, partition, key.topic_id, leader.session.serial)
        lock_s = inf if self.lock_timeout_ms is None else self.lock_timeout_ms / 1000
        lock_ends = trio.current_time() + lock_s
        # A view would keep the whole response in memory until the last of its partitions is read.
        records = bytes(data.records)
        try:
            acquired = AcquiredPartition(source, records, data.acquired_records, lock_ends, check_crc=self._check_crcs)
        except WireError as error:
            if assigned is not None:
                assigned.error = ConnectionLost(f"broker {leader.node_id} sent a response that cannot be read: {error}")
        else:
            self._acquired(acquired)

    def _refused(
        self, leader: ShareLeader, partition: TopicPartition, assigned: AssignedPartition | None, data: PartitionData
    ) -> None:
        code = ErrorCode.of(data.error_code)
        is_moved = code in ANOTHER_LEADER and self._take_leader(partition, data)
        if assigned is None or is_moved:
            return
        error = KafkaError(code, printable(data.error_message or "") or f"{partition}, broker {leader.node_id}")
        assigned.last_failure = error
        if code in STALE:
            self._cluster.request_refresh()
        if code in STALE or code in TRANSIENT or (is_retriable(code) and code is not ErrorCode.CORRUPT_MESSAGE):
            assigned.retry_at = trio.current_time() + self._cluster.backoff.pause_s(1)
        else:
            assigned.error = error
        self._subscription.move_to_end(partition)

    def _take_leader(self, partition: TopicPartition, data: Any) -> bool:
        """Takes the new leader from a response (KIP-951). If none is named, refreshes the metadata."""
        leader = data.current_leader
        if self._cluster.metadata.update_leader(partition, leader.leader_id, leader.leader_epoch):
            self._recheck()
            return True
        self._cluster.request_refresh()
        return False
