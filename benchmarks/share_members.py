"""Members of a share group in one process, by raw requests, and the loads that they put on a node.

Sixteen consumers of a client library in one process would measure that library. A member here sends the requests that a
client sends, one at a time on a connection of its own, and does not read the records in the responses.
"""

import select
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

import attrs

from benchmarks import protocol, topics
from benchmarks.loadgen import LoadFailed
from benchmarks.peers import Peer
from broker.client.payloads import decode_response, encode_request
from broker.wire.api.find_coordinator import FindCoordinatorRequest
from broker.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from broker.wire.api.share_acknowledge import AcknowledgementBatch as Acknowledged
from broker.wire.api.share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
from broker.wire.api.share_fetch import AcknowledgementBatch, FetchPartition, FetchTopic, ShareFetchRequest
from broker.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest

_VERSIONS: Final = {10: 6, 44: 1, 76: 1, 78: 2, 79: 2}
_GROUP_RESOURCE: Final = 32
_JOIN_TIMEOUT_S: Final = 60.0
_ACQUIRE_TIMEOUT_S: Final = 60.0
_NOT_YET: Final = {14, 15, 16}  # the coordinator of the group loads, or is not known yet
# The defaults of the Java client: max.poll.records is also the size of a part that is acknowledged together.
_RECORDS_MAX: Final = 500
_BYTES_MAX: Final = 50 << 20
_WAIT_MS: Final = 500

# By partition: the offsets of a part, the first and the last one.
Parts = dict[int, list[tuple[int, int]]]


def ask(connection: protocol.Connection, request: Any) -> Any:
    """Send a request and wait for its response."""
    version = _VERSIONS[request.__message__.key]
    connection.send(_frame(request))
    return decode_response(request, version, connection.receive())


def _frame(request: Any) -> bytes:
    payload = encode_request(request, _VERSIONS[request.__message__.key], "bench-share")
    return len(payload).to_bytes(4) + payload


@attrs.define
class ShareMember:
    """`held` are the parts that were delivered and not acknowledged yet; `epoch` that of the share session."""

    group: str
    connection: protocol.Connection
    member_id: str = attrs.field(factory=lambda: str(uuid.uuid4()))
    member_epoch: int = 0
    topic_id: bytes = bytes(16)
    partitions: Sequence[int] = ()
    epoch: int = 0
    held: Parts = attrs.field(factory=dict)
    request: Any = None

    def send_fetch(self, *, records_max: int = _RECORDS_MAX, batch_size: int = _RECORDS_MAX) -> None:
        """Fetch records, and accept those that are held."""
        named = set(self.held) if self.epoch else set(self.partitions)
        partitions = [
            FetchPartition(
                partition_index=index,
                acknowledgement_batches=[
                    AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[1])
                    for first, last in self.held.get(index, ())
                ],
            )
            for index in sorted(named)
        ]
        fetch = ShareFetchRequest(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=self.epoch,
            max_wait_ms=_WAIT_MS,
            min_bytes=1,
            max_bytes=_BYTES_MAX,
            max_records=records_max,
            batch_size=batch_size,
            topics=[FetchTopic(topic_id=self.topic_id, partitions=partitions)] if partitions else [],
        )
        self._send(fetch)

    def send_acknowledgement(self) -> None:
        """Accept the records that are held, without a fetch."""
        partitions = [
            AcknowledgePartition(
                partition_index=index,
                acknowledgement_batches=[
                    Acknowledged(first_offset=first, last_offset=last, acknowledge_types=[1]) for first, last in parts
                ],
            )
            for index, parts in self.held.items()
        ]
        acknowledge = ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=self.epoch,
            topics=[AcknowledgeTopic(topic_id=self.topic_id, partitions=partitions)],
        )
        self._send(acknowledge)

    def _send(self, request: Any) -> None:
        self.request = request
        self.connection.send(_frame(request))
        self.epoch += 1

    def receive(self) -> Parts:
        """Take the response, and return the parts that it acknowledges. Raises LoadFailed for an error in it."""
        request, acknowledged = self.request, self.held
        reply = decode_response(request, 2, self.connection.receive())
        self.held = {}
        self._check(reply.error_code, reply.error_message)
        for partition in (each for topic in reply.responses for each in topic.partitions):
            self._check(partition.error_code, partition.error_message)
            if isinstance(request, ShareFetchRequest):
                self._check(partition.acknowledge_error_code, partition.acknowledge_error_message)
                parts = [(each.first_offset, each.last_offset) for each in partition.acquired_records]
                if parts:
                    self.held[partition.partition_index] = parts
        return acknowledged

    def acquire(self, records: int, batch_size: int) -> Parts:
        """Fetch until so many records are delivered, or more, without accepting any."""
        acquired: Parts = {}
        number, deadline = 0, time.monotonic() + _ACQUIRE_TIMEOUT_S
        while number < records:
            if time.monotonic() > deadline:
                raise LoadFailed(f"only {number} of {records} records were delivered")
            self.held = {}
            self.send_fetch(records_max=records - number, batch_size=batch_size)
            self.receive()
            for index, parts in self.held.items():
                acquired.setdefault(index, []).extend(parts)
                number += sum(last - first + 1 for first, last in parts)
        self.held = {}
        return acquired

    def accept_every_second(self, acquired: Parts) -> None:
        """Accept every second record, beginning with the second one, in a request for each partition."""
        for index, parts in acquired.items():
            self.held = {index: [(each, each) for first, last in parts for each in range(first + 1, last + 1, 2)]}
            self.send_acknowledgement()
            self.receive()

    def _check(self, code: int, message: str | None) -> None:
        if code:
            raise LoadFailed(f"a share request was answered with error code {code}: {message}")

    def heartbeat(self, coordinator: protocol.Connection, topic: str | None = None) -> bool:
        """True if the member has got a new assignment."""
        epoch = self.member_epoch
        names = None if topic is None or epoch else [topic]
        beat = ShareGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member_id, member_epoch=epoch, subscribed_topic_names=names
        )
        reply = ask(coordinator, beat)
        if reply.error_code in _NOT_YET:
            return True
        self._check(reply.error_code, reply.error_message)
        self.member_epoch = reply.member_epoch
        if reply.assignment is None:
            return False
        assigned = reply.assignment.topic_partitions
        before, self.partitions = self.partitions, assigned[0].partitions if assigned else ()
        self.topic_id = assigned[0].topic_id if assigned else self.topic_id
        return before != self.partitions


class ShareGroup:
    """Members of a new group, which read a topic of `partitions` partitions from its beginning. A context manager."""

    def __init__(self, port: int, topic: str, partitions: int, members: int, **configs: str) -> None:
        self.port = port
        self._topic = topic
        self._partitions = partitions
        self._coordinator = protocol.Connection(port, timeout_s=60)
        group = f"group-of-{topic}-{members}"
        all_configs = {"share.auto.offset.reset": "earliest"} | {key.replace("_", "."): v for key, v in configs.items()}
        alter = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=_GROUP_RESOURCE,
                    resource_name=group,
                    configs=[AlterableConfig(name=name, value=value) for name, value in all_configs.items()],
                )
            ]
        )
        altered = ask(self._coordinator, alter).responses[0]
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])  # creates the topic of coordinators
        while ask(self._coordinator, find).coordinators[0].error_code:
            time.sleep(0.05)
        if altered.error_code:
            raise LoadFailed(f"configs of a group were refused: {altered.error_message}")
        self.members = [ShareMember(group, protocol.Connection(port, timeout_s=60)) for _ in range(members)]

    def __enter__(self) -> Self:
        self.join()
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member.connection.close()
            member.member_epoch = -1
            member.heartbeat(self._coordinator)
        self._coordinator.close()

    def join(self) -> None:
        """Join, and wait until the assignment covers all partitions and does not change any more."""
        deadline = time.monotonic() + _JOIN_TIMEOUT_S
        unchanged = 0
        while unchanged < 2:
            changed = [each.heartbeat(self._coordinator, self._topic) for each in self.members]
            assigned = {index for each in self.members for index in each.partitions}
            is_settled = not any(changed) and len(assigned) == self._partitions
            is_settled = is_settled and all(each.partitions for each in self.members)
            unchanged = unchanged + 1 if is_settled else 0
            if time.monotonic() > deadline:
                raise LoadFailed(f"the assignment of a share group covers {len(assigned)} partitions")
            time.sleep(0.05)

    def reconnect(self) -> None:
        """Begin again with the members' epochs at a node that has been restarted."""
        self._coordinator.close()
        self._coordinator = protocol.Connection(self.port, timeout_s=60)
        for member in self.members:
            member.connection.close()
            member.connection = protocol.Connection(self.port, timeout_s=60)
            member.epoch, member.held = 0, {}

    def await_delivery(self) -> None:
        """Fetch with the first member until a record is delivered, whatever the node refuses before."""
        member, deadline = self.members[0], time.monotonic() + _ACQUIRE_TIMEOUT_S
        while True:
            try:
                member.heartbeat(self._coordinator)
                member.acquire(1, 1)
            except LoadFailed:
                if time.monotonic() > deadline:
                    raise
                member.epoch = 0
                time.sleep(0.01)
            else:
                return

    def drain(self, records: int) -> float:
        """Fetch and accept at least `records` records; the seconds from the first fetch on."""
        began = time.perf_counter()
        finished = 0
        with select.epoll() as poll:
            waiting = self._watch(poll)
            for member in self.members:
                member.send_fetch()
            while finished < records:
                for descriptor, _ in self._events(poll):
                    member = waiting[descriptor]
                    finished += sum(last - first + 1 for parts in member.receive().values() for first, last in parts)
                    member.send_fetch()
        return time.perf_counter() - began

    def finish(self) -> None:
        """Take the responses that are due, and accept what they deliver, until there is nothing left."""
        waiting = list(self.members)
        while waiting:
            for member in waiting:
                member.receive()
            waiting = [each for each in waiting if each.held]
            for member in waiting:
                member.send_fetch()

    def _watch(self, poll: select.epoll) -> Mapping[int, ShareMember]:
        for member in self.members:
            poll.register(member.connection, select.EPOLLIN)
        return {member.connection.fileno(): member for member in self.members}

    def _events(self, poll: select.epoll) -> list[tuple[int, int]]:
        events = poll.poll(_JOIN_TIMEOUT_S)
        if not events:
            raise LoadFailed("no response to a share fetch")
        return events

    def latencies_s(self, requests: Sequence[bytes], error_at: int, rate: int, seconds: float) -> list[float]:
        """Produce one record at a time, `rate` in a second, to the partitions in turn; accept each when it arrives.

        The times from sending a record to the response that accepts it, ascending.
        """
        sent: list[float] = []
        offsets: list[tuple[int, int]] = []
        accepted: dict[tuple[int, int], float] = {}
        total, began = int(rate * seconds), time.perf_counter()
        with protocol.Connection(self.port) as producer, select.epoll() as poll:
            waiting = self._watch(poll)
            poll.register(producer, select.EPOLLIN)
            for member in self.members:
                member.send_fetch()
            while len(offsets) < total or not all(each in accepted for each in offsets):
                due = began + len(sent) / rate - time.perf_counter()
                if len(sent) < total and due <= 0:
                    sent.append(time.perf_counter())
                    producer.send(requests[len(sent) % len(requests)])
                    continue
                events = poll.poll(min(due, 1.0) if len(sent) < total else _JOIN_TIMEOUT_S)
                if not events and len(sent) == total:
                    raise LoadFailed("records were not delivered")
                for descriptor, _ in events:
                    if descriptor == producer.fileno():
                        partition = (len(offsets) + 1) % len(requests)
                        offsets.append((partition, _base_offset(producer.receive(), error_at)))
                    else:
                        _accept(waiting[descriptor], accepted)
        return sorted(accepted[each] - at for each, at in zip(offsets, sent, strict=True))


def _accept(member: ShareMember, accepted: dict[tuple[int, int], float]) -> None:
    """Take a response. Records that it delivers are acknowledged at once, and then the member fetches again."""
    was_acknowledgement = isinstance(member.request, ShareAcknowledgeRequest)
    parts, now = member.receive(), time.perf_counter()
    if was_acknowledgement:
        for partition, ranges in parts.items():
            accepted |= {(partition, offset): now for first, last in ranges for offset in range(first, last + 1)}
    if member.held:
        member.send_acknowledgement()
    else:
        member.send_fetch()


def _base_offset(reply: bytes, error_at: int) -> int:
    code = protocol.error_code(reply, error_at)
    if code:
        raise LoadFailed(f"a Produce request was refused with error code {code}")
    return int.from_bytes(reply[error_at + 2 : error_at + 10])


def fill(peer: Peer, topic: str, partitions: int, batch: bytes, batches: int) -> None:
    """Append a batch `batches` times in all, to the partitions in turn."""
    requests = [protocol.produce(topic, index, batch) for index in range(partitions)]
    error_at = protocol.produce_error_offset(topic)
    for request in requests[:batches]:
        topics.ask_until_served(peer, request, error_at)
    with protocol.Connection(peer.port, timeout_s=60) as connection:
        for number in range(partitions, batches):
            _base_offset(connection.ask(requests[number % partitions]), error_at)
