"""The reaction of a classic group's member to each error code (AbstractCoordinator.java)."""

from enum import Enum, auto
from typing import Final

from broker.wire.errors import ErrorCode


class Next(Enum):
    """The next step after a response.

    RETRY: ask again after a back-off. FIND_COORDINATOR: the same, of another coordinator. REJOIN: join again at once,
    in the same generation. RESET_GENERATION: join again; the generation is over and so is the ownership of partitions.
    RESET_MEMBER: the same, and the member id is unknown to the coordinator. FAIL: raise the error to the application.
    """

    GO_ON = auto()
    RETRY = auto()
    FIND_COORDINATOR = auto()
    REJOIN = auto()
    RESET_GENERATION = auto()
    RESET_MEMBER = auto()
    FAIL = auto()


_ALWAYS: Final[dict[int, Next]] = {
    ErrorCode.NONE: Next.GO_ON,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Next.FIND_COORDINATOR,
    ErrorCode.NOT_COORDINATOR: Next.FIND_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Next.RETRY,
    ErrorCode.REQUEST_TIMED_OUT: Next.RETRY,
    ErrorCode.UNKNOWN_MEMBER_ID: Next.RESET_MEMBER,
    ErrorCode.ILLEGAL_GENERATION: Next.RESET_GENERATION,
}
# A coordinator that cannot finish a join tells all its members to try again.
_OF_JOIN: Final[dict[int, Next]] = {
    **_ALWAYS,
    ErrorCode.REBALANCE_IN_PROGRESS: Next.RETRY,
    ErrorCode.MEMBER_ID_REQUIRED: Next.REJOIN,
}
_OF_SYNC_AND_HEARTBEAT: Final[dict[int, Next]] = {**_ALWAYS, ErrorCode.REBALANCE_IN_PROGRESS: Next.REJOIN}


def after_join(code: int) -> Next:
    return _OF_JOIN.get(code, Next.FAIL)


def after_sync(code: int) -> Next:
    return _OF_SYNC_AND_HEARTBEAT.get(code, Next.FAIL)


def after_heartbeat(code: int) -> Next:
    return _OF_SYNC_AND_HEARTBEAT.get(code, Next.FAIL)
