"""The client's side of a share session with one leader (KIP-932). Pure.

The first request has epoch 0 and names all partitions; later ones count up and name only what has changed. A session
cannot begin with acknowledgements. Where a request got lost, or the leader has dropped the session, a new one begins.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from broker.wire.api.share_fetch import ForgottenTopic
from broker.wire.errors import ErrorCode

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_EPOCH_MAX: Final = 2**31 - 1
_ENDED: Final = frozenset(
    {
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    }
)


class PartitionId(NamedTuple):
    """A partition as requests of share consumers name it."""

    topic_id: bytes
    partition: int


class SessionChange(NamedTuple):
    """The session's part of a ShareFetch request."""

    epoch: int
    added: list[PartitionId]
    removed: list[PartitionId]


class ShareSession:
    """See the module's docstring. Each request is followed by `accept`, `refuse` or `lose`.

    `serial` counts the sessions. Records that were acquired in an earlier one cannot be acknowledged.
    """

    def __init__(self) -> None:
        self.epoch = INITIAL_EPOCH
        self.serial = 0
        self._partitions: dict[PartitionId, None] = {}

    @property
    def is_open(self) -> bool:
        """True if the leader keeps a session."""
        return self.epoch != INITIAL_EPOCH

    def fetch(self, wanted: Iterable[PartitionId]) -> SessionChange:
        """The change for a request for exactly these partitions, in their order."""
        before, self._partitions = self._partitions, dict.fromkeys(wanted)
        if not self.is_open:
            return SessionChange(self.epoch, list(self._partitions), [])
        added = [each for each in self._partitions if each not in before]
        return SessionChange(self.epoch, added, [each for each in before if each not in self._partitions])

    def accept(self) -> None:
        """Takes a response without an error of the whole request."""
        self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1

    def refuse(self, code: int) -> None:
        """Takes a response with an error of the whole request, after which most sessions go on."""
        if code in _ENDED or not self.is_open:
            self.lose()
        else:
            self.accept()

    def lose(self) -> None:
        """Notes that the session is over: the next request begins another one."""
        self.epoch = INITIAL_EPOCH
        self.serial += 1
        self._partitions = {}


def is_session_over(code: int) -> bool:
    """True for the errors with which a leader says that it has no such session."""
    return code in _ENDED


def forgotten_topics(removed: Iterable[PartitionId]) -> list[ForgottenTopic]:
    """The partitions that leave a session, as the request has them."""
    return [ForgottenTopic(topic_id=topic_id, partitions=found) for topic_id, found in _by_topic(removed).items()]


def _by_topic(partitions: Iterable[PartitionId]) -> Mapping[bytes, list[int]]:
    topics: dict[bytes, list[int]] = {}
    for topic_id, index in partitions:
        topics.setdefault(topic_id, []).append(index)
    return topics
