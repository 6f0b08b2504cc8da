"""Events of groups and of transactional producers, with their causes, as a node's answers to clients show them.

    group_rebalanced  a classic group has another generation, or a member of a consumer group has other partitions
    member_joined     a member of a consumer group has joined
    member_left       a member of a consumer group has left
    producer_fenced   a transactional id has a new epoch: producers with an earlier one are fenced
    client_fenced     a client has got an error by which it learns that another one has taken its place

The coordinator itself decides in pure code, which traces nothing. A member whose session ends sends nothing: it is
missing in the next generation without having left.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

import attrs

from broker.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from broker.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from broker.wire.api.join_group import JoinGroupRequest, JoinGroupResponse
from broker.wire.api.leave_group import LeaveGroupRequest, LeaveGroupResponse
from jepsen.testing.faults.fault import TEST_SERVER, RequestFacts
from jepsen.testing.faults.request_history import AnswerError
from jepsen.testing.faults.shapes import NameOf

# Gets the kind of an event and its fields.
Report: TypeAlias = Callable[[str, dict[str, object]], None]
# Groups, and fenced clients, that a node remembers. The oldest ones are forgotten.
_GROUPS_MAX: Final = 1_000
_FENCED_MAX: Final = 1_000
_FENCING: Final = ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "FENCED_INSTANCE_ID", "FENCED_MEMBER_EPOCH")


@attrs.define(eq=False)
class _Group:
    """The members of the present generation with their client ids, and the members that have left since."""

    generation: int = -1
    members: dict[str, str] = attrs.field(factory=dict)
    clients: dict[str, str] = attrs.field(factory=dict)
    left: dict[str, str] = attrs.field(factory=dict)
    causes: list[str] = attrs.field(factory=list)


class ClientEvents:
    """`report` gets the events, `name_of` the name of a topic id."""

    def __init__(self, report: Report, name_of: NameOf) -> None:
        self._report = report
        self._name_of = name_of
        self._groups: dict[str, _Group] = {}
        self._fenced: dict[tuple[object, ...], None] = {}

    def answered(self, facts: RequestFacts, request: Any, response: Any, errors: Iterable[AnswerError]) -> None:
        """Take a request and its answer, which leaves next."""
        for error in errors:
            if error.error in _FENCING:
                self._note_fenced(facts, error)
        if getattr(response, "error_code", 0):
            return
        match request, response:
            case JoinGroupRequest(), JoinGroupResponse():
                self._joined(facts, request, response)
            case LeaveGroupRequest(), LeaveGroupResponse():
                self._left(facts, request)
            case ConsumerGroupHeartbeatRequest(), ConsumerGroupHeartbeatResponse():
                self._heartbeat(facts, request, response)
            case InitProducerIdRequest(), InitProducerIdResponse() if request.transactional_id:
                self._initialised(facts, request.transactional_id, response)

    def _joined(self, facts: RequestFacts, request: JoinGroupRequest, response: JoinGroupResponse) -> None:
        """The answer to the leader has all members of the generation."""
        group = self._group(request.group_id)
        group.clients[response.member_id] = facts.client_id
        if response.generation_id <= group.generation or not response.members:
            return
        members = {each.member_id: group.clients.get(each.member_id, each.member_id) for each in response.members}
        cause = _cause(group, members, response.generation_id)
        group.generation, group.members, group.left = response.generation_id, members, {}
        group.clients = dict(members)
        fields = {"group": request.group_id, "generation": group.generation, "members": sorted(members.values())}
        self._report("group_rebalanced", {**fields, "cause": cause})

    def _left(self, facts: RequestFacts, request: LeaveGroupRequest) -> None:
        group = self._group(request.group_id)
        for member in request.members:
            group.left[member.member_id] = member.reason or ""
        if request.member_id:
            group.left[request.member_id] = ""

    def _heartbeat(
        self, facts: RequestFacts, request: ConsumerGroupHeartbeatRequest, response: ConsumerGroupHeartbeatResponse
    ) -> None:
        group, client_id = self._group(request.group_id), facts.client_id
        if request.member_epoch <= 0:
            verb = "left" if request.member_epoch else "joined"
            group.causes.append(f"{client_id} {verb}")
            self._report(f"member_{verb}", {"group": request.group_id, "client_id": client_id})
        if response.assignment is None or request.member_epoch < 0:
            return
        if response.member_epoch > group.generation and group.generation >= 0 and not group.causes:
            group.causes.append("a member's session has ended, or topics have changed")
        group.generation = max(group.generation, response.member_epoch)
        topics = response.assignment.topic_partitions
        fields: dict[str, object] = {
            "group": request.group_id,
            "generation": response.member_epoch,
            "client_id": client_id,
            "partitions": [[self._name_of(each.topic_id), sorted(each.partitions)] for each in topics],
        }
        self._report("group_rebalanced", {**fields, "cause": "; ".join(group.causes[-3:])})

    def _initialised(self, facts: RequestFacts, transactional_id: str, response: InitProducerIdResponse) -> None:
        if not response.producer_epoch:
            return  # the first producer with this producer id
        by = "an administrator" if facts.client_id == TEST_SERVER else f"client {facts.client_id}"
        self._report(
            "producer_fenced",
            {
                "transactional_id": transactional_id,
                "producer_id": response.producer_id,
                "epoch": response.producer_epoch,
                "cause": f"{by} has initialised the transactional id; earlier epochs are fenced",
            },
        )

    def _note_fenced(self, facts: RequestFacts, error: AnswerError) -> None:
        """Clients repeat requests: each is reported once."""
        key = (facts.client_id, facts.api.name, error.error, error.subject)
        if key not in self._fenced:
            self._fenced[key] = None
            if len(self._fenced) > _FENCED_MAX:
                del self._fenced[next(iter(self._fenced))]
            about = {name: value for name, value in attrs.asdict(error.subject).items() if value is not None}
            subjects = [each for each in facts.subjects if each.transactional_id or each.group]
            for subject in subjects[:1]:
                about |= {name: value for name, value in attrs.asdict(subject).items() if value is not None}
            fields = {"client_id": facts.client_id, "api": facts.api.name, "error": error.error}
            self._report("client_fenced", {**fields, **about})

    def _group(self, group_id: str) -> _Group:
        group = self._groups.setdefault(group_id, _Group())
        if len(self._groups) > _GROUPS_MAX:
            del self._groups[next(iter(self._groups))]
        return group


def _cause(group: _Group, members: dict[str, str], generation: int) -> str:
    """The reason for a generation, by a comparison with the members of the last one."""
    if group.generation < 0 and generation > 1:
        return "the coordinator is new to the group"
    causes = [f"{client_id} joined" for member, client_id in members.items() if member not in group.members]
    for member, client_id in group.members.items():
        if member in group.left:
            reason = group.left[member]
            causes.append(f"{client_id} left" + (f" ({reason})" if reason else ""))
        elif member not in members:
            causes.append(f"{client_id} was silent for its session timeout, or did not join in time")
    return "; ".join(causes) or "a member joined again, as after a change of its topics"
