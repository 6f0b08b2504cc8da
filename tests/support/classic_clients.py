"""Members of classic groups without clients: requests to a shard, and its responses."""

from collections.abc import Mapping, Sequence
from typing import Any

from broker.coordinator.group.classic.classic_group import ClassicGroup, GroupState
from broker.coordinator.group.classic.requests import JoiningClient
from broker.coordinator.group.config import GroupConfig
from broker.coordinator.group.mixed.classic_requests import heartbeat, join_group, leave_group, sync_group
from broker.coordinator.group.shard import GroupCoordinatorShard
from broker.coordinator.runtime.completion import Completion
from broker.coordinator.runtime.decision import Decision
from broker.wire.api.heartbeat import HeartbeatRequest
from broker.wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from broker.wire.api.leave_group import MemberIdentity
from broker.wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from broker.wire.errors import ErrorCode, KafkaError
from tests.support.groups_shard import GroupsShard

GROUP = "group"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
INITIAL_DELAY_MS = 3_000
RANGE = {"range": b"r"}
LATEST = 9


class ClassicClients(GroupsShard):
    """A shard and its clients. A request returns a completion, which is done at once or later."""

    def __init__(self, config: GroupConfig | None = None) -> None:
        super().__init__(config or GroupConfig(initial_rebalance_delay_ms=INITIAL_DELAY_MS))
        self.ids_given = 0

    @property
    def group(self) -> ClassicGroup:
        group = self.state.groups[GROUP]
        assert isinstance(group, ClassicGroup)
        return group

    def ask_to_join(
        self,
        member_id: str = "",
        *,
        instance_id: str | None = None,
        protocols: Mapping[str, bytes] | Sequence[tuple[str, bytes]] = RANGE,
        protocol_type: str = "consumer",
        version: int = LATEST,
        session_timeout_ms: int = SESSION_MS,
        rebalance_timeout_ms: int = REBALANCE_MS,
        group_id: str = GROUP,
    ) -> Completion[JoinGroupResponse]:
        pairs = protocols.items() if isinstance(protocols, Mapping) else protocols
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in pairs],
        )
        self.ids_given += 1
        joiner = JoiningClient(
            client_id="client",
            client_host="/127.0.0.1",
            new_member_id=f"{instance_id or 'member'}-{self.ids_given}",
            needs_member_id=version >= 4,
            can_skip_assignment=version >= 9,
        )
        return self._asked(lambda state, now_ms: join_group(state, request, joiner, now_ms))

    def ask_to_sync(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes] | None = None,
        *,
        instance_id: str | None = None,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = None,
    ) -> Completion[SyncGroupResponse]:
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=each, assignment=data)
                for each, data in (assignments or {}).items()
            ],
        )
        return self._asked(lambda state, now_ms: sync_group(state, request, now_ms))

    def heartbeat(self, member_id: str, generation: int, instance_id: str | None = None) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=GROUP, generation_id=generation, member_id=member_id, group_instance_id=instance_id
        )
        try:
            return self.write(lambda state, now_ms: heartbeat(state, request))
        except KafkaError as error:
            return error.code

    def leave(self, *members: str | MemberIdentity) -> list[ErrorCode]:
        named = [MemberIdentity(member_id=each) if isinstance(each, str) else each for each in members]
        codes: list[ErrorCode] = self.write(lambda state, now_ms: leave_group(state, GROUP, named, now_ms))
        return codes

    def _asked(self, decide: Any) -> Completion[Any]:
        try:
            completion: Completion[Any] = self.write(decide)
        except KafkaError as error:
            completion = Completion()
            completion.complete(error)
        return completion

    # Sequences of requests

    def new_member_id(self, **fields: Any) -> str:
        """A member id for a first join (KIP-394)."""
        response = told(self.ask_to_join(**fields))
        assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
        member_id: str = response.member_id
        return member_id

    def join_all(self, count: int, **fields: Any) -> list[str]:
        """Join new dynamic members to an empty group, as one generation. The first one leads. Returns their ids."""
        members = [self.new_member_id(**fields) for _ in range(count)]
        joining = [self.ask_to_join(each, **fields) for each in members]
        while self.group.state is GroupState.PREPARING_REBALANCE:
            self.pass_ms(1000)
        assert [told(each).error_code for each in joining] == [ErrorCode.NONE] * count
        return members

    def stable(self, count: int, **fields: Any) -> list[str]:
        """Join and sync new dynamic members. The first one leads and assigns: b"0" to itself, b"1" to the second, and
        so on.
        """
        members = self.join_all(count, **fields)
        self.sync_all(members)
        return members

    def sync_all(self, members: Sequence[str], instance_ids: Mapping[str, str] | None = None) -> None:
        """Sync all members. The first one leads, and assigns."""
        generation, ids = self.group.generation, instance_ids or {}
        assignments = {each: str(at).encode() for at, each in enumerate(members)}
        syncing = [self.ask_to_sync(each, generation, instance_id=ids.get(each)) for each in members[1:]]
        syncing.insert(0, self.ask_to_sync(members[0], generation, assignments, instance_id=ids.get(members[0])))
        assert [told(each).assignment for each in syncing] == list(assignments.values())


def told(completion: Completion[Any]) -> Any:
    """The response of a completed request. An error of the whole request is returned as a response with its code."""
    assert completion.done, "nothing is told yet"
    outcome = completion.outcome
    if isinstance(outcome, KafkaError):
        return JoinGroupResponse(error_code=outcome.code)
    return outcome


def code(completion: Completion[Any]) -> ErrorCode:
    return ErrorCode(told(completion).error_code)


def facts(group: ClassicGroup) -> tuple[object, ...]:
    """All attributes of a group, for comparisons."""
    return (
        *(getattr(group, name) for name in ("state", "generation", "protocol_type", "protocol_name", "leader_id")),
        *(getattr(group, name) for name in ("is_initial", "new_member_added", "joining_count", "state_since_ms")),
        tuple(group.members.items()),
        tuple(group.static_members.items()),
        tuple(group.pending),
        tuple(group.pending_sync),
    )


def decide_only(state: GroupCoordinatorShard, decide: Any, now_ms: int) -> Decision[Any] | None:
    """Make a decision without appending its records."""
    try:
        decision: Decision[Any] = decide(state, now_ms)
    except KafkaError:
        return None
    return decision
