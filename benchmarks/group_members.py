"""Members of many classic groups in one process, with less overhead than any real client.

Each member has a connection of its own to its coordinator, as real consumers have, because Kafka serves one request of
a connection at a time. Requests are encoded once; from commit to commit only the offsets in them change.
"""

import contextlib
import heapq
import select
import socket
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias

import attrs

from benchmarks import protocol
from broker.client.payloads import decode_response, encode_request
from broker.wire.api.find_coordinator import FindCoordinatorRequest
from broker.wire.api.heartbeat import HeartbeatRequest
from broker.wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from broker.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from broker.wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from broker.wire.errors import ErrorCode

# Called with the response and the time at which its request was sent.
Answered: TypeAlias = Callable[[bytes, float], None]

# Versions that Kafka 4.x and this project serve. This JoinGroup version is the last one that allows a first join
# without a member id.
_FIND_VERSION, _JOIN_VERSION, _SYNC_VERSION, _HEARTBEAT_VERSION, _COMMIT_VERSION = 4, 3, 3, 4, 8
_CLIENT_ID: Final = "member"
_SIZE, _OFFSET = Struct(">i"), Struct(">q")
# A placeholder that marks the positions of offsets in an encoded request.
_MARK: Final = 0x1122_3344_5566_7788
_SESSION_TIMEOUT_MS, _REBALANCE_TIMEOUT_MS = 45_000, 60_000
# The default of the Java client.
_HEARTBEAT_SECONDS: Final = 3.0
# The first backoff of clients (retry.backoff.ms).
_RETRY_SECONDS: Final = 0.1
_FIND_SECONDS: Final = 0.05
_STALE_COORDINATOR: Final = {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}


@attrs.define
class Load:
    """The settings of all members, and their results. Times are of `time.perf_counter`.

    While `is_measuring`, `latencies_s` gets one entry for each acknowledged commit, and `skipped` counts commits that
    were due before the previous one was acknowledged. `committed` has the last acknowledged commit of each group.
    """

    topic: str
    members_per_group: int
    partitions_per_member: int
    period_s: float
    is_committing: bool = False
    is_measuring: bool = False
    latencies_s: list[float] = attrs.field(factory=list)
    skipped: int = 0
    refused: Counter[str] = attrs.field(factory=Counter)
    since: float = 0.0
    first_commits: dict[str, float] = attrs.field(factory=dict)


class _SentRequest(NamedTuple):
    since: float
    answered: Answered


class Member:
    """One member. Its `group` knows the address of the coordinator."""

    def __init__(self, group: "Group", index: int, phase_s: float) -> None:
        self.group = group
        self.loop = group.loop
        self.index = index
        self.is_ready = False
        self._phase_s = phase_s
        self._member_id = ""
        self._generation = -1
        self._socket: socket.socket | None = None
        self._received = b""
        self._unanswered: deque[_SentRequest] = deque()
        self._offset = 0
        self._commit = bytearray()
        self._marks: list[int] = []
        self._decode_commit: Callable[[bytes], Any] = bytes
        self._accepted = b""
        self._heartbeat = b""
        self._is_commit_due = False

    # The connection

    def connect(self, port: int) -> None:
        """Connect to a coordinator, to join or, after an earlier join, to continue."""
        self.close()
        self._socket = socket.socket()
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.connect_ex(("127.0.0.1", port))
        self.loop.watch(self._socket, self._connected, select.EPOLLOUT)

    def close(self) -> None:
        if self._socket is not None:
            self.loop.forget(self._socket)
            self._socket.close()
            self._socket = None
        self._unanswered.clear()
        self._received = b""

    def _connected(self) -> None:
        assert self._socket is not None
        if self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._lost()
            return
        self.loop.watch(self._socket, self._readable, select.EPOLLIN)
        if self.is_ready:
            self._send_commit()
        else:
            self._join()

    def _lost(self) -> None:
        self.close()
        self.group.lost()

    def _send(self, frame: bytes | bytearray, answered: Answered) -> None:
        if self._socket is None:
            return
        self._unanswered.append(_SentRequest(time.perf_counter(), answered))
        try:
            sent = self._socket.send(frame)
        except OSError:
            self._lost()
        else:
            assert sent == len(frame), "a socket that nothing else is written to takes a small request"

    def _readable(self) -> None:
        assert self._socket is not None
        try:
            data = self._socket.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lost()
            return
        data = self._received + data
        at = 0
        while len(data) - at >= 4:
            end = at + 4 + _SIZE.unpack_from(data, at)[0]
            if end > len(data):
                break
            reply, at = data[at + 4 : end], end
            asked, connection = self._unanswered.popleft(), self._socket
            asked.answered(reply, asked.since)
            if self._socket is not connection:
                return
        self._received = data[at:]

    def _ask(self, request: Any, version: int, answered: Callable[[Any], None]) -> None:
        frame = _frame(request, version)
        self._send(frame, lambda reply, since: answered(decode_response(request, version, reply)))

    # Joining

    def _join(self) -> None:
        topic = self.group.load.topic.encode()
        subscription = b"\0\0" + _SIZE.pack(1) + len(topic).to_bytes(2) + topic + _SIZE.pack(-1)
        request = JoinGroupRequest(
            group_id=self.group.group_id,
            session_timeout_ms=_SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=_REBALANCE_TIMEOUT_MS,
            member_id=self._member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
        )
        self._ask(request, _JOIN_VERSION, self._joined)

    def _joined(self, response: JoinGroupResponse) -> None:
        if response.error_code != ErrorCode.NONE:
            self._refused("JoinGroup", response.error_code, self._join)
            return
        self._member_id, self._generation = response.member_id, response.generation_id
        assignments = [
            SyncGroupRequestAssignment(member_id=each.member_id, assignment=self._assignment(index))
            for index, each in enumerate(response.members)
        ]
        request = SyncGroupRequest(
            group_id=self.group.group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            assignments=assignments,
        )
        self._ask(request, _SYNC_VERSION, self._synced)

    def _assignment(self, index: int) -> bytes:
        topic, count = self.group.load.topic.encode(), self.group.load.partitions_per_member
        partitions = range(index * count, (index + 1) * count)
        named = len(topic).to_bytes(2) + topic + _SIZE.pack(count) + b"".join(map(_SIZE.pack, partitions))
        return b"\0\0" + _SIZE.pack(1) + named + _SIZE.pack(-1)

    def _synced(self, response: SyncGroupResponse) -> None:
        if response.error_code != ErrorCode.NONE:
            self._member_id = self._member_id if response.error_code != ErrorCode.UNKNOWN_MEMBER_ID else ""
            self._refused("SyncGroup", response.error_code, self._join)
            return
        self._prepare()
        if not self.is_ready:
            self.is_ready = True
            self.loop.ready += 1
            now = time.perf_counter()
            self.loop.after(self._phase_s, self._commit_due)
            self.loop.at(now + _HEARTBEAT_SECONDS * self._phase_s / self.group.load.period_s, self._heartbeat_due)

    def _prepare(self) -> None:
        """Encode the requests that are sent repeatedly."""
        group, load = self.group, self.group.load
        first = self.index * load.partitions_per_member
        partitions = [
            OffsetCommitRequestPartition(partition_index=first + at, committed_offset=_MARK, committed_leader_epoch=0)
            for at in range(load.partitions_per_member)
        ]
        commit = OffsetCommitRequest(
            group_id=group.group_id,
            generation_id_or_member_epoch=self._generation,
            member_id=self._member_id,
            topics=[OffsetCommitRequestTopic(name=load.topic, partitions=partitions)],
        )
        self._commit = bytearray(_frame(commit, _COMMIT_VERSION))
        mark, at = _OFFSET.pack(_MARK), -1
        self._marks = []
        for _ in partitions:
            at = self._commit.index(mark, at + 1)
            self._marks.append(at)
        heartbeat = HeartbeatRequest(group_id=group.group_id, generation_id=self._generation, member_id=self._member_id)
        self._heartbeat = _frame(heartbeat, _HEARTBEAT_VERSION)
        self._decode_commit = lambda reply: decode_response(commit, _COMMIT_VERSION, reply)

    # Committing

    def _commit_due(self) -> None:
        load = self.group.load
        self.loop.after(load.period_s, self._commit_due)
        if not load.is_committing:
            return
        if self._is_commit_due:
            load.skipped += load.is_measuring
        else:
            self._send_commit()

    def _send_commit(self) -> None:
        self._is_commit_due = True
        self._offset += 1
        for at in self._marks:
            _OFFSET.pack_into(self._commit, at, self._offset)
        self._send(self._commit, self._committed)

    def _committed(self, reply: bytes, sent: float) -> None:
        if reply != self._accepted:
            codes = [each.error_code for topic in self._decode_commit(reply).topics for each in topic.partitions]
            refusals = [code for code in codes if code != ErrorCode.NONE]
            if refusals:
                self._refused("OffsetCommit", refusals[0], self._send_commit)
                return
            self._accepted = reply  # the correlation id is always the same
        self._is_commit_due = False
        now, load = time.perf_counter(), self.group.load
        if sent >= load.since:
            load.first_commits.setdefault(self.group.group_id, now)
        if load.is_measuring:
            load.latencies_s.append(now - sent)

    def _heartbeat_due(self) -> None:
        self.loop.after(_HEARTBEAT_SECONDS, self._heartbeat_due)
        self._send(self._heartbeat, _ignore)

    def _refused(self, api: str, code: int, again: Callable[[], None]) -> None:
        self.group.load.refused[f"{api} {ErrorCode(code).name}"] += 1
        if code in _STALE_COORDINATOR:
            self._lost()
        else:
            self.loop.at(time.perf_counter() + _RETRY_SECONDS, lambda: self._again(self._socket, again))

    def _again(self, on: socket.socket | None, again: Callable[[], None]) -> None:
        if on is not None and on is self._socket:
            again()


def _ignore(reply: bytes, sent: float) -> None:
    pass


def _frame(request: Any, version: int) -> bytes:
    payload = encode_request(request, version, _CLIENT_ID)
    return _SIZE.pack(len(payload)) + payload


class Group:
    """The members of a group, which connect to their coordinator together."""

    def __init__(self, loop: "Loop", load: Load, group_id: str, phases_s: Sequence[float]) -> None:
        self.loop = loop
        self.load = load
        self.group_id = group_id
        self.coordinator = 0
        self.members = [Member(self, index, phase) for index, phase in enumerate(phases_s)]

    def lost(self) -> None:
        """Called by a member that has lost its coordinator."""
        for member in self.members:
            member.close()
        self.loop.find(self)

    def found(self, node_id: int, port: int) -> None:
        self.coordinator = node_id
        for member in self.members:
            member.connect(port)


class Loop:
    """The event loop of the members. Coordinators are looked up at any of `ports`."""

    def __init__(self, ports: Sequence[int]) -> None:
        self.ports = list(ports)
        self.ready = 0
        self._epoll = select.epoll()
        self._watched: dict[int, Callable[[], None]] = {}
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = 0
        self._now = 0.0
        self._sought: dict[str, Group] = {}

    def watch(self, sock: socket.socket, call: Callable[[], None], events: int) -> None:
        """Call `call` whenever the socket is ready, until it is unwatched."""
        if sock.fileno() in self._watched:
            self._epoll.modify(sock.fileno(), events)
        else:
            self._epoll.register(sock.fileno(), events)
        self._watched[sock.fileno()] = call

    def forget(self, sock: socket.socket) -> None:
        if self._watched.pop(sock.fileno(), None) is not None:
            self._epoll.unregister(sock.fileno())

    def at(self, when: float, call: Callable[[], None]) -> None:
        self._serial += 1
        heapq.heappush(self._due, (when, self._serial, call))

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Call `call` after the given time, counted from when the current callback was due."""
        self.at(max(self._now, time.perf_counter() - 1) + seconds, call)

    def find(self, group: Group) -> None:
        """Look up the group's coordinator, and retry until it is found."""
        if not self._sought:
            self.at(time.perf_counter() + _FIND_SECONDS, self._find)
        self._sought[group.group_id] = group

    def _find(self) -> None:
        sought, self._sought = self._sought, {}
        request = FindCoordinatorRequest(coordinator_keys=list(sought))
        for port in self.ports:
            with contextlib.suppress(OSError), protocol.Connection(port, timeout_s=5) as connection:
                response = decode_response(request, _FIND_VERSION, connection.ask(_frame(request, _FIND_VERSION)))
                for each in response.coordinators:
                    group = sought.pop(each.key)
                    if each.error_code == ErrorCode.NONE:
                        group.found(each.node_id, each.port)
                    else:
                        self.find(group)
                break
        for group in sought.values():
            self.find(group)

    def run(self, until: Callable[[], bool], timeout_s: float) -> bool:
        """Run until `until()` is true, or until the timeout. Returns True in the first case."""
        end = time.perf_counter() + timeout_s
        while not (is_so := until()) and (now := time.perf_counter()) < end:
            while self._due and self._due[0][0] <= now:
                self._now, _, call = heapq.heappop(self._due)
                call()
            wait_s = min(0.05, max(0.0, self._due[0][0] - time.perf_counter())) if self._due else 0.05
            for descriptor, _ in self._epoll.poll(wait_s):
                ready = self._watched.get(descriptor)
                if ready is not None:
                    ready()
        return is_so

    def run_for(self, seconds: float) -> None:
        self.run(lambda: False, seconds)
