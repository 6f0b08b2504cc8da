"""The state of the members of a share group in a sequence, and when a server has done what they have caused."""

from base64 import urlsafe_b64encode
from enum import Enum
from typing import Any, Final, NamedTuple

import attrs
import trio

from broker.wire.api.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from broker.wire.api.find_coordinator import FindCoordinatorRequest
from broker.wire.errors import ErrorCode
from tests.differential.families.groups.members import GROUP, Members
from tests.differential.families.metadata_barrier import Changes, until_applied
from tests.differential.families.records.readers import Readers, RecordFamily, known_topic_ids
from tests.differential.sequences import Call, Place

# The topics of each sequence with their numbers of partitions.
TOPICS: Final = {"t": 2, "u": 1}
PARTITIONS: Final = tuple((topic, index) for topic, count in TOPICS.items() for index in range(count))
# The kinds of coordinators with a key of each: the one of groups, and the one of share-partitions.
_COORDINATORS: Final = ((0, "prepare"), (2, f"prepare:{'A' * 22}:0"))
_DESCRIBE_OFFSETS_VERSION: Final = 1
_WITHIN_S: Final = 60
_PAUSE_S: Final = 0.005
# A topic is initialized within this time, or will not be, because a request was refused or another one came first.
_INITIALIZED_WITHIN_S: Final = 2
# No request shows that the records of an ended session are released.
_RELEASED_S: Final = 0.1
# The shortest lock that `servers.CONFIGS` allows, and the time until it has expired on both servers.
SHORT_LOCK_MS: Final = 2_000
_EXPIRED_S: Final = SHORT_LOCK_MS / 1000 + 0.5


class ShareEpoch(Enum):
    """The epoch of a request of a share session."""

    OPEN = "open"
    NEXT = "next"
    SAME = "same"
    LATER = "later"
    NEGATIVE = "negative"
    CLOSE = "close"


class Acquired(NamedTuple):
    """Records that a member has acquired, which all have the same delivery count. `topic` is the suffix of a name."""

    topic: str
    topic_id: bytes
    partition: int
    first_offset: int
    last_offset: int


@attrs.define(eq=False)
class ShareMembers(Readers):
    """The members of a sequence by their numbers: their epochs, subscriptions, sessions and records.

    `acquired` are the records of a member in the order of their deliveries. Acknowledged ones stay, because
    an acknowledgement may come again. `has_joined` is true after a heartbeat that may initialize share-partitions.
    """

    members: Members = attrs.field(factory=Members)
    subscriptions: dict[int, tuple[str, ...]] = attrs.field(factory=dict)
    session_epochs: dict[int, int] = attrs.field(factory=dict)
    acquired: dict[int, list[Acquired]] = attrs.field(factory=dict)
    # The partitions about which the last request of each member has acknowledgements.
    acknowledged: dict[int, set[tuple[bytes, int]]] = attrs.field(factory=dict)
    changes: Changes = attrs.field(factory=Changes)
    has_joined: bool = False
    has_released: bool = False
    expects_expiry: bool = False

    def session_epoch(self, member: int, epoch: ShareEpoch) -> int:
        due = self.session_epochs.get(member, 1)
        return {
            ShareEpoch.OPEN: 0,
            ShareEpoch.NEXT: due,
            ShareEpoch.SAME: max(due - 1, 1),
            ShareEpoch.LATER: due + 1,
            ShareEpoch.NEGATIVE: -2,
            ShareEpoch.CLOSE: -1,
        }[epoch]


def members_of(place: Place) -> ShareMembers:
    state: ShareMembers = place.state
    return state


def member_id(member: int) -> str:
    """The id that a member has made: a UUID in Kafka's form, as its client makes one."""
    return urlsafe_b64encode(f"member-{member}".encode().ljust(16, b".")).decode().rstrip("=")


class ShareFamily(RecordFamily):
    """When a server has done what the requests of a share group have caused."""

    passing = RecordFamily.passing | {ErrorCode.COORDINATOR_NOT_AVAILABLE}

    def new_state(self) -> ShareMembers:
        return ShareMembers()

    async def prepare(self, call: Call) -> None:
        """Waits for the coordinators of transactions, of groups and of share-partitions."""
        await super().prepare(call)
        with trio.fail_after(_WITHIN_S):
            for kind, key in _COORDINATORS:
                find = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
                while any(each.error_code for each in (await call(find, 6)).coordinators):
                    await trio.sleep(_PAUSE_S)

    async def settle(self, place: Place, call: Call) -> None:
        """Waits for changes of topics, configs and transactions, for initialized share-partitions, and for locks."""
        state = members_of(place)
        # The coordinator gets changes of topics after the leaders of their partitions do.
        state.changes.is_pending |= bool(state.partitions)
        await super().settle(place, call)
        if state.changes.is_pending:
            await until_applied(place, call, state.changes)
        if state.has_joined:
            state.has_joined = False
            await _until_initialized(place, call)
        if state.has_released:
            state.has_released = False
            await trio.sleep(_RELEASED_S)
        if state.expects_expiry:
            state.expects_expiry = False
            await trio.sleep(_EXPIRED_S)


async def _until_initialized(place: Place, call: Call) -> None:
    """Waits until all topics that exist and to which a member subscribes have offsets."""
    subscribed = {suffix for topics in members_of(place).subscriptions.values() for suffix in topics}
    expected = {known_topic_ids(place, suffix)[-1] for suffix in subscribed if suffix in TOPICS}
    deadline = trio.current_time() + _INITIALIZED_WITHIN_S
    while not expected <= await _topics_with_offsets(place, call) and trio.current_time() < deadline:
        await trio.sleep(_PAUSE_S)


async def _topics_with_offsets(place: Place, call: Call) -> set[bytes]:
    group = DescribeShareGroupOffsetsRequestGroup(group_id=place.named(GROUP), topics=None)
    response: Any = await call(DescribeShareGroupOffsetsRequest(groups=[group]), _DESCRIBE_OFFSETS_VERSION)
    return {bytes(each.topic_id) for each in response.groups[0].topics}
