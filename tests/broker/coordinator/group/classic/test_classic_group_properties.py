"""Random runs of classic groups: members join, leave, fall silent and return, and coordinators change.

The invariants:

- every waiting request gets one response, in bounded time;
- a generation has one leader and one protocol, which all its members know; its assignment is the leader's;
- the next coordinator replays from the log the state that members have received in responses;
- a decision by itself changes nothing.
"""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from broker.coordinator.group.classic.classic_group import ClassicGroup, GroupState, session_key
from broker.coordinator.group.classic.step import join_key, sync_key
from broker.coordinator.group.config import GroupConfig
from broker.coordinator.runtime.completion import Completion
from broker.wire.api.leave_group import MemberIdentity
from broker.wire.errors import ErrorCode, KafkaError
from tests.support.classic_clients import GROUP, INITIAL_DELAY_MS, REBALANCE_MS, SESSION_MS, ClassicClients, code, facts

NOT_COORDINATOR = KafkaError(ErrorCode.NOT_COORDINATOR)
MEMBERS_MAX = 4
PROTOCOLS = st.lists(st.sampled_from(["range", "sticky", "own"]), min_size=1, max_size=3, unique=True)
INSTANCES = st.sampled_from([None, None, "a", "b"])
VERSIONS = st.sampled_from([3, 8, 9])
TIMES = st.sampled_from([1, 500, INITIAL_DELAY_MS, SESSION_MS // 2, SESSION_MS, REBALANCE_MS])


class Recorded:
    """A waiting request and its responses."""

    def __init__(self, member_id: str, completion: Completion[Any]) -> None:
        self.member_id = member_id
        self.completion = completion
        self.answers: list[Any] = []
        completion.then(self.answers.append)


class CautiousClients(ClassicClients):
    """Makes every decision twice; the first one must not change the state."""

    def write(self, decide: Any, producer_id: int = -1) -> Any:
        before = {name: facts(group) for name, group in self._classic.items()}
        log, due = len(self.log), dict(self.timers.due)
        try:
            decide(self.state, self.now_ms)
        finally:
            assert {name: facts(group) for name, group in self._classic.items()} == before
            assert (len(self.log), self.timers.due) == (log, due)
        return super().write(decide, producer_id)

    @property
    def _classic(self) -> dict[str, ClassicGroup]:
        return {name: group for name, group in self.state.groups.items() if isinstance(group, ClassicGroup)}


class ClassicGroupsHold(RuleBasedStateMachine):
    ids = Bundle("ids")

    def __init__(self) -> None:
        super().__init__()
        self.clients = CautiousClients(
            GroupConfig(initial_rebalance_delay_ms=INITIAL_DELAY_MS, group_max_size=MEMBERS_MAX)
        )
        self.joining: list[Recorded] = []
        self.syncing: list[Recorded] = []
        self.generations: dict[int, tuple[str, str]] = {}
        self.members: dict[int, list[str]] = {}
        self.assigned: dict[tuple[int, str], bytes] = {}
        self.instances: dict[str, str | None] = {}
        self.latest_generation = 0

    @property
    def group(self) -> ClassicGroup | None:
        group = self.clients.state.groups.get(GROUP)
        assert group is None or isinstance(group, ClassicGroup)
        return group

    # Actions of members

    @rule(target=ids, instance_id=INSTANCES, protocols=PROTOCOLS, version=VERSIONS)
    def come(self, instance_id: str | None, protocols: list[str], version: int) -> Any:
        known = set(self.group.members) | set(self.group.pending) if self.group is not None else set()
        self._join("", instance_id, protocols, version)
        group = self.group
        now_known = [] if group is None else [*group.members, *group.pending]
        new = [member_id for member_id in now_known if member_id not in known]
        self.instances.update(dict.fromkeys(new, instance_id))
        return multiple(*new)

    @rule(member_id=ids, protocols=PROTOCOLS, version=VERSIONS)
    def join(self, member_id: str, protocols: list[str], version: int) -> None:
        self._join(member_id, self.instances[member_id], protocols, version)

    def _join(self, member_id: str, instance_id: str | None, protocols: list[str], version: int) -> None:
        named = {name: name.encode() for name in protocols}
        completion = self.clients.ask_to_join(
            member_id, instance_id=instance_id, protocols=named, version=version, session_timeout_ms=SESSION_MS
        )
        self.joining.append(Recorded(member_id, completion))

    @rule(member_id=ids, is_late=st.booleans(), gives_all=st.booleans())
    def sync_one(self, member_id: str, is_late: bool, gives_all: bool) -> None:
        self.sync(member_id, is_late=is_late, gives_all=gives_all)

    def sync(self, member_id: str, *, is_late: bool, gives_all: bool) -> None:
        if self.group is None:
            return
        generation = self.group.generation - is_late
        assignments = {each: f"{generation} {each}".encode() for each in list(self.group.members)[not gives_all :]}
        leads = self.group.leader_id == member_id and self.group.state is GroupState.COMPLETING_REBALANCE
        completion = self.clients.ask_to_sync(member_id, generation, assignments, instance_id=self.instances[member_id])
        self.syncing.append(Recorded(member_id, completion))
        assert not is_late or code(completion) != ErrorCode.NONE, (
            "nobody gets the assignment of a generation that is over"
        )
        if leads and self.group.state is GroupState.STABLE:
            for each in self.group.members:
                self.assigned[generation, each] = assignments.get(each, b"")

    @rule(member_id=ids)
    def beat(self, member_id: str) -> None:
        if self.group is None:
            return
        instance_id = self.instances[member_id]
        error = self.clients.heartbeat(member_id, self.group.generation, instance_id)
        is_current = member_id in self.group.members and (
            instance_id is None or self.group.static_members[instance_id] == member_id
        )
        assert (error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)) == is_current

    @rule(member_id=consumes(ids))
    def leave(self, member_id: str) -> None:
        self.clients.leave(MemberIdentity(member_id=member_id, group_instance_id=self.instances[member_id]))
        assert self.group is None or member_id not in {*self.group.members, *self.group.pending}

    @rule(elapsed_ms=TIMES)
    def wait(self, elapsed_ms: int) -> None:
        self.clients.pass_ms(elapsed_ms)

    @rule(protocols=PROTOCOLS, version=VERSIONS)
    def agree(self, protocols: list[str], version: int) -> None:
        """Let all present members respond, so that a generation is formed."""
        if self.group is None:
            return
        for member_id in [*self.group.members, *self.group.pending]:
            self._join(member_id, self.instances[member_id], protocols, version)
        if self.group is not None and self.group.state is GroupState.PREPARING_REBALANCE:
            self.clients.pass_ms(SESSION_MS - 1)
        for member_id in [] if self.group is None else list(self.group.members):
            self.sync(member_id, is_late=False, gives_all=True)

    @rule()
    def another_coordinator(self) -> None:
        """Change the coordinator: waiting requests fail, so that clients look for the new one."""
        for waiting in (*self.joining, *self.syncing):
            waiting.completion.complete(NOT_COORDINATOR)
        self.clients.load()
        # A generation without an assignment is not stored, so its number is used again.
        begun = 0 if self.group is None else self.group.generation
        for generation in [each for each in self.generations if each > begun]:
            self.generations.pop(generation)
            self.members.pop(generation, None)

    # Invariants

    @invariant()
    def answers_agree(self) -> None:
        for waiting in self.joining:
            for answer in waiting.answers:
                if not getattr(answer, "code", 0) and not answer.error_code:
                    self._agrees(answer)
        for waiting in self.syncing:
            for answer in waiting.answers:
                assert isinstance(answer, type(NOT_COORDINATOR)) or answer.error_code or self._was_assigned(answer)
        self.joining = [waiting for waiting in self.joining if not waiting.completion.done]
        self.syncing = [waiting for waiting in self.syncing if not waiting.completion.done]
        if self.group is None:
            # A group that was empty for long is removed, and a new one counts from one.
            self.generations.clear()
            self.members.clear()

    def _agrees(self, answer: Any) -> None:
        """The answer agrees with all earlier answers of this generation, except for a leader that must not assign
        (KIP-814).
        """
        generation = answer.generation_id
        known = self.generations.setdefault(generation, (answer.protocol_name, answer.protocol_type))
        assert known == (answer.protocol_name, answer.protocol_type)
        if answer.members and not answer.skip_assignment:
            members = [each.member_id for each in answer.members]
            assert answer.leader == answer.member_id in members
            assert self.members.setdefault(generation, members) == members
            assert all(each.metadata == answer.protocol_name.encode() for each in answer.members)
        self.latest_generation = max(self.latest_generation, generation)

    def _was_assigned(self, answer: Any) -> bool:
        return not answer.assignment or answer.assignment in self.assigned.values()

    @invariant()
    def whoever_waits_is_waited_for(self) -> None:
        held = [] if self.group is None else list(self.group.members.values())
        waiters = {id(waiter) for each in held for waiter in (each.joining, each.syncing) if waiter is not None}
        assert waiters == {id(waiting.completion) for waiting in (*self.joining, *self.syncing)}

    @invariant()
    def group_is_consistent(self) -> None:
        group = self.group
        if group is None:
            return
        assert group.joining_count == sum(member.joining is not None for member in group.members.values())
        assert (group.state is GroupState.EMPTY) <= (not group.members)
        assert (group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE)) <= bool(group.members)
        assert not set(group.pending) & set(group.members)
        assert set(group.pending_sync) <= set(group.members)
        assert (group.leader_id in group.members) if group.members else group.leader_id is None
        assert group.static_members == {
            member.instance_id: member.member_id for member in group.members.values() if member.instance_id is not None
        }
        if group.members:
            assert group.elected_protocol(), "there is always one that all know"
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            assert not group.joining_count
            assert all(member.metadata(group.protocol_name) for member in group.members.values())

    @invariant()
    def group_goes_on_by_itself(self) -> None:
        group, due = self.group, self.clients.timers.due
        if group is None:
            return
        for member in group.members.values():
            assert session_key(GROUP, member.member_id) in due or (member.awaits_response and not member.is_new)
        assert all(session_key(GROUP, member_id) in due for member_id in group.pending)
        assert (join_key(GROUP) in due) == (group.state is GroupState.PREPARING_REBALANCE)
        assert (sync_key(GROUP) in due) == bool(group.pending_sync)

    @invariant()
    def log_says_what_members_were_told(self) -> None:
        group = self.group
        if group is None or group.state is not GroupState.STABLE:
            return
        shown = CautiousClients(self.clients.config)
        shown.log = self.clients.log
        shown.load()
        read = shown.group
        assert (read.generation, read.protocol_name, read.leader_id) == (
            group.generation,
            group.protocol_name,
            group.leader_id,
        ) or set(read.members) != set(group.members)
        for member_id, member in group.members.items():
            assert read.members[member_id].assignment == member.assignment
            assert read.members[member_id].instance_id == member.instance_id

    def teardown(self) -> None:
        """Let all members fall silent: all are removed after a while, and all requests are answered."""
        self.clients.pass_ms(10 * 60 * 1000 + 10 * REBALANCE_MS)
        self.answers_agree()
        assert not self.joining
        assert not self.syncing
        assert self.group is None or self.group.state is GroupState.EMPTY


ClassicGroupsHold.TestCase.settings = settings(max_examples=200, stateful_step_count=40)
test_classic_groups_hold = ClassicGroupsHold.TestCase
