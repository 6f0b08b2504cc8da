"""Consumers that use the classic protocol like real ones: they join, assign if they lead, sync, and send heartbeats.

An eager consumer gives up all partitions before it joins again. A cooperative one keeps its partitions, gives up those
that it is no longer assigned, and then joins once more (KIP-429).
"""

from collections.abc import Mapping
from typing import Any

from broker.coordinator.group.classic.requests import JoiningClient
from broker.coordinator.group.mixed.classic_requests import heartbeat, join_group, leave_group, sync_group
from broker.coordinator.runtime.completion import Completion
from broker.wire.api.heartbeat import HeartbeatRequest
from broker.wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from broker.wire.api.leave_group import MemberIdentity
from broker.wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from broker.wire.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    OwnedPartitions,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from broker.wire.errors import ErrorCode, KafkaError
from tests.support.consumer_clients import GROUP, REBALANCE_MS, ConsumerGroups

SESSION_MS = 30_000
COOPERATIVE = "cooperative-sticky"
EAGER = "range"
NO_GENERATION = -1

Owned = dict[str, frozenset[int]]


def as_owned(named: list[OwnedPartitions]) -> Owned:
    return {each.topic: frozenset(each.partitions) for each in named if each.partitions}


class ClassicConsumer:
    """`owned` are the partitions that it owns according to its last response, by topic names. `is_dead` is True after
    an error that permits no further join.

    `version` is that of the subscription; below 1, it does not list the owned partitions.
    """

    def __init__(
        self,
        shard: ConsumerGroups,
        topics: list[str],
        *,
        instance_id: str | None = None,
        is_cooperative: bool = False,
        version: int = 3,
        name: str = "classic",
    ) -> None:
        self.shard = shard
        self.topics = topics
        self.instance_id = instance_id
        self.is_cooperative = is_cooperative
        self.version = version
        self.name = name
        self.ids_offered = 0
        self.is_dead = False
        self.wants_others = False
        self.member_id = ""
        self.generation = NO_GENERATION
        self.owned: Owned = {}
        self.joining: Completion[Any] | None = None
        self.syncing: Completion[Any] | None = None

    def names(self) -> dict[str, set[int]]:
        """The partitions that it owns according to its last response, by topic names."""
        return {topic: set(partitions) for topic, partitions in self.owned.items()}

    def subscribe(self, topics: list[str]) -> None:
        self.topics, self.wants_others = topics, True

    def lose_coordinator(self) -> None:
        """Fail the pending requests with NOT_COORDINATOR."""
        for waiting in (self.joining, self.syncing):
            if waiting is not None:
                waiting.complete(KafkaError(ErrorCode.NOT_COORDINATOR))

    @property
    def is_settled(self) -> bool:
        is_waiting = self.joining is not None or self.syncing is not None
        return not is_waiting and not self.wants_others and self.generation != NO_GENERATION

    def act(self) -> ErrorCode | None:
        """Take the next step: handle a response, or send a heartbeat. Returns the error of the response, if any."""
        if self.joining is not None:
            return self._handle_join_response() if self.joining.done else None
        if self.syncing is not None:
            return self._handle_sync_response() if self.syncing.done else None
        if self.generation == NO_GENERATION or self.wants_others:
            self.join()
            return None
        return self._react(self.heartbeat())

    def heartbeat(self, generation: int | None = None) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=self.generation if generation is None else generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        try:
            return self.shard.write(lambda state, now_ms: heartbeat(state, request))
        except KafkaError as error:
            return error.code

    def join(self, **fields: Any) -> Completion[JoinGroupResponse]:
        if not self.is_cooperative:
            self.owned = {}
        self.syncing, self.wants_others = None, False
        self.joining = self._ask(join_group, self.join_request(**fields), self._joiner())
        return self.joining

    def join_request(self, **fields: Any) -> JoinGroupRequest:
        given: dict[str, Any] = {
            "group_id": GROUP,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": "consumer",
            "protocols": [
                JoinGroupRequestProtocol(
                    name=COOPERATIVE if self.is_cooperative else EAGER, metadata=self.subscription()
                )
            ],
        }
        return JoinGroupRequest(**(given | fields))

    def subscription(self) -> bytes:
        said = ConsumerProtocolSubscription(
            topics=self.topics,
            owned_partitions=[
                OwnedPartitions(topic=topic, partitions=sorted(partitions)) for topic, partitions in self.owned.items()
            ],
        )
        return encode_subscription(said, self.version)

    def _joiner(self) -> JoiningClient:
        self.ids_offered += 1
        return JoiningClient(
            client_id=self.name,
            client_host="/host",
            new_member_id=f"{self.name}-{self.ids_offered}",
            needs_member_id=True,
            can_skip_assignment=True,
        )

    def _ask(self, decide: Any, *args: Any) -> Completion[Any]:
        try:
            completion: Completion[Any] = self.shard.write(lambda state, now_ms: decide(state, *args, now_ms))
        except KafkaError as error:
            completion = Completion()
            completion.complete(error)
        return completion

    def _handle_join_response(self) -> ErrorCode | None:
        assert self.joining is not None
        outcome, self.joining = self.joining.outcome, None
        code = ErrorCode(outcome.code if isinstance(outcome, KafkaError) else outcome.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = outcome.member_id
            self.join()
        elif code is ErrorCode.NONE:
            self.member_id, self.generation = outcome.member_id, outcome.generation_id
            self.sync(self.assign(outcome) if outcome.leader == self.member_id else {})
        return self._react(code)

    def sync(self, assignments: Mapping[str, bytes], **fields: Any) -> Completion[Any]:
        given: dict[str, Any] = {
            "group_id": GROUP,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": "consumer",
            "assignments": [
                SyncGroupRequestAssignment(member_id=each, assignment=data) for each, data in assignments.items()
            ],
        }
        self.syncing = self._ask(sync_group, SyncGroupRequest(**(given | fields)))
        return self.syncing

    def _handle_sync_response(self) -> ErrorCode | None:
        assert self.syncing is not None
        outcome, self.syncing = self.syncing.outcome, None
        code = ErrorCode(outcome.code if isinstance(outcome, KafkaError) else outcome.error_code)
        if code is ErrorCode.NONE:
            before = self.owned
            assigned = decode_assignment(outcome.assignment).assigned_partitions if outcome.assignment else []
            self.owned = as_owned(assigned)
            gave_up = any(partitions - self.owned.get(topic, frozenset()) for topic, partitions in before.items())
            if self.is_cooperative and gave_up:
                self.join()
        return self._react(code)

    def _react(self, code: ErrorCode) -> ErrorCode | None:
        match code:
            case ErrorCode.NONE | ErrorCode.MEMBER_ID_REQUIRED:
                return None
            case ErrorCode.REBALANCE_IN_PROGRESS | ErrorCode.NOT_COORDINATOR | ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                self.join()
            case ErrorCode.ILLEGAL_GENERATION:
                self.owned = {}
                self.join()
            case ErrorCode.UNKNOWN_MEMBER_ID:
                self.owned, self.member_id = {}, ""
                self.join()
            case _:
                self.owned, self.is_dead = {}, True
        return code

    def assign(self, response: JoinGroupResponse) -> dict[str, bytes]:
        """Assign evenly, without partitions that another member of this generation still owns."""
        said = {each.member_id: decode_subscription(each.metadata) for each in response.members}
        owner = {
            (owned.topic, index): member_id
            for member_id, subscription in said.items()
            for owned in subscription.owned_partitions
            for index in owned.partitions
        }
        given: dict[str, dict[str, set[int]]] = {member_id: {} for member_id in said}
        for topic in sorted({topic for subscription in said.values() for topic in subscription.topics}):
            known = self.shard.image.topics.by_name.get(topic)
            readers = sorted(member_id for member_id, subscription in said.items() if topic in subscription.topics)
            for index in range(0 if known is None else len(known.partitions)):
                reader = readers[index % len(readers)]
                if owner.get((topic, index), reader) == reader:
                    given[reader].setdefault(topic, set()).add(index)
        return {member_id: _assignment(topics) for member_id, topics in given.items()}

    def leave(self) -> list[ErrorCode]:
        self.owned = {}
        who = [MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)]
        codes: list[ErrorCode] = self.shard.write(lambda state, now_ms: leave_group(state, GROUP, who, now_ms))
        return codes


def _assignment(topics: Mapping[str, set[int]]) -> bytes:
    named = [OwnedPartitions(topic=topic, partitions=sorted(partitions)) for topic, partitions in topics.items()]
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=named), 3)
