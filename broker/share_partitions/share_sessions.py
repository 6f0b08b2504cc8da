"""Share sessions: the partitions that each share consumer fetches from this broker (KIP-932).

A session belongs to a member of a group. Each of its requests carries the next epoch, so that requests that were lost
or that run twice are noticed. A session ends with the connection on which it began, and its member's records are
released then.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol, TypeAlias

from broker.wire.errors import ErrorCode, KafkaError

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_EPOCH_MAX: Final = 2**31 - 1
# Each takes some 100 bytes. A member of a group with as many partitions would read from all brokers.
PARTITIONS_MAX: Final = 100_000

# Topic id and index.
PartitionId: TypeAlias = tuple[bytes, int]


class SessionKey(NamedTuple):
    """Names a session: one member of one group."""

    group_id: str
    member_id: str


class WaitingFetch(Protocol):
    """A fetch of the session that waits for records."""

    def expire(self) -> None:
        """Respond with what there is now."""
        ...


class ShareSession:
    """`epoch` is that of the next request, `partitions` what the member fetches, in the order in which they came."""

    __slots__ = ("connection", "epoch", "key", "partitions", "waiting")

    def __init__(self, key: SessionKey, connection: object) -> None:
        self.key = key
        self.connection = connection
        self.epoch = INITIAL_EPOCH + 1
        self.partitions: dict[PartitionId, None] = {}
        self.waiting: WaitingFetch | None = None

    def update(self, named: Iterable[PartitionId], forgotten: Iterable[PartitionId]) -> None:
        """Add and remove partitions. Raises KafkaError INVALID_REQUEST if there would be too many."""
        self.partitions.update(dict.fromkeys(named))
        for partition in forgotten:
            self.partitions.pop(partition, None)
        if len(self.partitions) > PARTITIONS_MAX:
            self.partitions.clear()
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"A share session has at most {PARTITIONS_MAX} partitions.")

    def rotated(self, epoch: int) -> list[PartitionId]:
        """The partitions, beginning with another one in each epoch, so that each is first at times."""
        partitions = list(self.partitions)
        if epoch < 1 or not partitions:
            return partitions
        at = epoch % len(partitions)
        return partitions[at:] + partitions[:at]

    def end_wait(self) -> None:
        """Have the waiting fetch answered: another request has come, or the session has ended."""
        waiting, self.waiting = self.waiting, None
        if waiting is not None:
            waiting.expire()


class ShareSessions:
    """The sessions of a broker. `evicted` counts those that ended with their connection."""

    __slots__ = ("_by_connection", "_by_key", "_members", "evicted")

    def __init__(self) -> None:
        self._by_key: dict[SessionKey, ShareSession] = {}
        self._by_connection: dict[object, dict[SessionKey, ShareSession]] = {}
        self._members: dict[str, int] = {}
        self.evicted = 0

    def __len__(self) -> int:
        return len(self._by_key)

    @property
    def partition_count(self) -> int:
        """The number of partitions in all sessions."""
        return sum(len(session.partitions) for session in self._by_key.values())

    def has_members(self, group_id: str) -> bool:
        """True if a member of the group has a session."""
        return group_id in self._members

    def open(self, key: SessionKey, connection: object, sessions_max: int) -> ShareSession:
        """Open a session in place of the member's earlier one. Raises KafkaError SHARE_SESSION_LIMIT_REACHED."""
        earlier = self._by_key.get(key)
        if earlier is not None:
            self.remove(earlier)
        if len(self._by_key) >= sessions_max:
            raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED, "The limit of share sessions has been reached.")
        session = self._by_key[key] = ShareSession(key, connection)
        self._by_connection.setdefault(connection, {})[key] = session
        self._members[key.group_id] = self._members.get(key.group_id, 0) + 1
        return session

    def begin_request(self, key: SessionKey, epoch: int) -> ShareSession:
        """Begin another request of an open session.

        Raises KafkaError: SHARE_SESSION_NOT_FOUND, and INVALID_SHARE_SESSION_EPOCH for an epoch other than the next
        one. The final epoch is always taken, and leaves the session open until `remove`.
        """
        session = self._by_key.get(key)
        if session is None:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND, "The share session was not found.")
        if epoch != FINAL_EPOCH:
            if epoch != session.epoch:
                raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH, f"The next epoch is {session.epoch}.")
            session.epoch = session.epoch + 1 if session.epoch < _EPOCH_MAX else INITIAL_EPOCH + 1
        session.end_wait()
        return session

    def remove(self, session: ShareSession) -> bool:
        """End a session. False if it has ended before."""
        key = session.key
        if self._by_key.get(key) is not session:
            return False
        del self._by_key[key]
        of_connection = self._by_connection[session.connection]
        del of_connection[key]
        if not of_connection:
            del self._by_connection[session.connection]
        if self._members[key.group_id] == 1:
            del self._members[key.group_id]
        else:
            self._members[key.group_id] -= 1
        session.end_wait()
        return True

    def remove_of_connection(self, connection: object) -> list[ShareSession]:
        """End the sessions that began on a connection, which is closed now."""
        ended = list(self._by_connection.get(connection, {}).values())
        for session in ended:
            self.remove(session)
        self.evicted += len(ended)
        return ended

    def remove_all(self) -> None:
        """End all sessions."""
        for session in list(self._by_key.values()):
            self.remove(session)
