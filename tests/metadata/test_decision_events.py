"""Decisions of the active controller are traced with their cause when they are committed, and declared as traced."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from kraft.replicated_log import Leadership
from metadata.configuration.definition import Password
from metadata.controller import DelegationTokenConfig, NewDelegationToken, NewPartitions, NewTopic, TopicToDelete
from metadata.controller.reassignment import Reassignment, TopicReassignments
from metadata.events import CONTROLLER_EVENTS
from metadata.image import AccessControlEntry
from metadata.protocol import AclOperation, AclPermission, KafkaError, PatternType, ResourceType
from tests.support.metadata import MetadataNode, metadata_node
from tests.support.volatile_disk import VolatileDisk


class DecisionLog:
    """The events of the controller, each checked against its declaration."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, object]]] = []

    def __call__(self, kind: str, /, **fields: object) -> None:
        declared = CONTROLLER_EVENTS.kinds.get(kind)
        if declared is not None:
            assert set(fields) == set(declared.fields), kind
            self.events.append((kind, {name: value for name, value in fields.items() if name != "node"}))

    def take_kinds(self, *kinds: str) -> list[str]:
        """The kinds of the events of these kinds since the last call."""
        events, self.events = self.events, []
        return [kind for kind, _ in events if kind in kinds]

    def take(self, *kinds: str) -> list[dict[str, object]]:
        """The events of these kinds since the last call, without fields that tests cannot predict."""
        events, self.events = self.events, []
        unknown = ("topic_id", "broker_epoch")
        return [
            {name: value for name, value in fields.items() if name not in unknown}
            for kind, fields in events
            if kind in kinds
        ]


@asynccontextmanager
async def traced_controller(
    disk: VolatileDisk | None = None, tokens: DelegationTokenConfig | None = None
) -> AsyncIterator[tuple[MetadataNode, DecisionLog]]:
    log = DecisionLog()
    async with metadata_node(disk or VolatileDisk(), watches_brokers=True, trace=log, tokens=tokens) as node:
        yield node, log


async def test_registration_and_unfencing_of_a_broker(autojump_clock: MockClock) -> None:
    async with traced_controller() as (node, log):
        assert log.take("features_changed")[0]["cause"] == "a controller became active"
        await node.join(1)
        assert log.take("broker_registered", "broker_unfenced") == [
            {"cause": "BrokerRegistration", "broker": 1, "fenced": True, "rack": None},
            {"cause": "broker 1 has caught up", "broker": 1},
        ]


async def test_creation_growth_and_deletion_of_a_topic(autojump_clock: MockClock) -> None:
    async with traced_controller() as (node, log):
        await node.join(1)
        await node.controller.create_topics([NewTopic("t", num_partitions=3)])
        await node.controller.create_partitions([NewPartitions("t", 5)])
        await node.controller.delete_topics([TopicToDelete("t")])
        assert log.take("topic_created", "partitions_created", "topic_deleted") == [
            {"cause": "CreateTopics", "topic": "t", "partitions": 3, "replication_factor": 1},
            {"cause": "CreatePartitions", "topic": "t", "partitions": 2},
            {"cause": "DeleteTopics", "topic": "t"},
        ]


async def test_access_control_entries_are_created_and_deleted(autojump_clock: MockClock) -> None:
    entry = AccessControlEntry(
        ResourceType.TOPIC, "t", PatternType.PREFIXED, "User:a\n", "*", AclOperation.READ, AclPermission.DENY
    )
    async with traced_controller() as (node, log):
        await node.controller.security.create_acls([entry])
        await node.controller.security.delete_acls([node.controller.image.acls.ids[entry]])
        told = "DENY READ to 'User:a\\n' from '*' on PREFIXED TOPIC 't'"
        assert log.take("acl_created", "acl_deleted") == [
            {"cause": "CreateAcls", "entry": told},
            {"cause": "DeleteAcls", "entry": told},
        ]


async def test_delegation_tokens_are_created_changed_and_removed(autojump_clock: MockClock) -> None:
    tokens = DelegationTokenConfig(secret_key=Password("secret"))
    async with traced_controller(tokens=tokens) as (node, log):
        security = node.controller.security
        created = await security.create_delegation_token(NewDelegationToken("User:a", "User:a"))
        await security.renew_delegation_token("User:a", created.hmac, 1000)
        await security.expire_delegation_token("User:a", created.hmac, -1)
        await security.remove_expired_tokens()
        named = {"token_id": created.token.token_id, "owner": "User:a"}
        now_ms = 1_700_000_000_000
        assert log.take("delegation_token_created", "delegation_token_changed", "delegation_token_removed") == [
            {"cause": "CreateDelegationToken", **named, "expires_ms": now_ms + 86_400_000},
            {"cause": "RenewDelegationToken", **named, "expires_ms": now_ms + 1000},
            {"cause": "ExpireDelegationToken", **named},
        ]


async def test_a_silent_broker_is_fenced_with_the_cause_and_its_partitions_lose_their_leader(
    autojump_clock: MockClock,
) -> None:
    async with traced_controller() as (node, log):
        await node.join(1)
        await node.controller.create_topics([NewTopic("t", num_partitions=2)])
        log.take()
        await trio.sleep(9.1)
        cause = "no heartbeat of broker 1 for 9000 ms"
        assert log.take("broker_fenced", "partitions_changed", "partitions_without_leader", "partition_changed") == [
            {"cause": cause, "broker": 1},
            {"cause": cause, "partitions": 2, "leaders": 2, "isrs": 2, "first": "t-0"},
            *(
                {
                    "cause": cause,
                    "topic": "t",
                    "partition": n,
                    "leader": -1,
                    "isr": (),
                    "eligible": (1,),
                    "replicas": None,
                }
                for n in (0, 1)
            ),
            {"cause": cause, "partitions": 2, "first": "t-0"},
        ]


async def test_a_broker_that_asked_for_its_shutdown_is_not_reported_as_fenced(autojump_clock: MockClock) -> None:
    async with traced_controller() as (node, log):
        epoch, other_epoch = await node.join(1), await node.join(2)
        await node.controller.create_topics([NewTopic("t", assignments=[(0, (1,))])])
        log.take()
        while not (await node.heartbeat(1, epoch, want_shut_down=True)).should_shut_down:
            await node.heartbeat(2, other_epoch)  # the broker waits until the other one knows the new leaders
        told = log.take_kinds("broker_fenced", "broker_shutdown_started", "broker_shut_down")
        assert told == ["broker_shutdown_started", "broker_shut_down"]


async def test_a_broker_that_leads_nothing_and_shuts_down_is_not_reported_as_fenced(autojump_clock: MockClock) -> None:
    async with traced_controller() as (node, log):
        epoch, _ = await node.join(1), await node.join(2)
        log.take()
        assert (await node.heartbeat(1, epoch, want_shut_down=True)).should_shut_down
        assert log.take_kinds("broker_fenced", "broker_shutdown_started", "broker_shut_down") == ["broker_shut_down"]


async def test_a_broker_that_dies_in_its_shutdown_is_not_reported_as_fenced(autojump_clock: MockClock) -> None:
    async with traced_controller() as (node, log):
        epoch, other_epoch = await node.join(1), await node.join(2)
        await node.controller.create_topics([NewTopic("t", assignments=[(0, (1,))])])
        assert not (await node.heartbeat(1, epoch, want_shut_down=True)).should_shut_down
        for _ in range(10):
            await trio.sleep(1)
            await node.heartbeat(2, other_epoch)
        assert log.take_kinds("broker_fenced", "broker_shut_down") == ["broker_shut_down"]


async def test_a_broken_connection_is_the_cause_of_fencing(autojump_clock: MockClock) -> None:
    async with traced_controller() as (node, log):
        epoch = await node.join(1)
        node.controller.broker_connection_lost(1, epoch)
        await trio.sleep(8)
        (fenced,) = log.take("broker_fenced")
        assert fenced["cause"] == "the connection of broker 1 broke, and it did not come back"


async def test_kip_455_a_reassignment_starts_and_is_cancelled(autojump_clock: MockClock) -> None:
    async with traced_controller() as (node, log):
        for broker_id in (1, 2):
            await node.join(broker_id)
        await node.controller.create_topics([NewTopic("t", assignments=[(0, (1,))])])
        log.take()

        async def move(replicas: tuple[int, ...] | None) -> None:
            topics = [TopicReassignments("t", [Reassignment(0, replicas)])]
            await node.controller.alter_partition_reassignments(topics, allow_factor_change=True)

        await move((2,))
        where = {"cause": "AlterPartitionReassignments", "topic": "t", "partition": 0}
        (started,) = log.take("reassignment_started")
        assert started == {**where, "replicas": (2, 1), "adding": (2,), "removing": (1,)}
        await move(None)
        assert log.take("reassignment_cancelled") == [{**where, "replicas": (1,), "adding": (), "removing": ()}]


async def test_a_decision_that_is_not_committed_is_not_traced(autojump_clock: MockClock) -> None:
    disk = VolatileDisk()
    async with traced_controller(disk) as (node, log):
        await node.join(1)
        gate = trio.Event()
        disk.during_sync = gate.wait

        async def create() -> None:
            with pytest.raises(KafkaError, match="NOT_CONTROLLER"):
                await node.controller.create_topics([NewTopic("t")])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(create)
            await wait_all_tasks_blocked()
            assert log.take("topic_created") == []
            node.controller.handle_leader_change(Leadership(None, 99))
            gate.set()
            nursery.cancel_scope.cancel()
        assert log.take("topic_created") == []


def test_every_controller_event_names_its_cause() -> None:
    assert [kind for kind, declared in CONTROLLER_EVENTS.kinds.items() if "cause" not in declared.fields] == []
