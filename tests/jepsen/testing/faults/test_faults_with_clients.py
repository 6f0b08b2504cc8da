"""Each action of a fault, as a real client sees it, and its end."""

from pathlib import Path
from typing import Any

import pytest
import trio

from broker.wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from broker.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.wire.api.heartbeat import HeartbeatRequest
from broker.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from broker.wire.api.sasl_handshake import SaslHandshakeRequest
from broker.wire.errors import ErrorCode
from jepsen.testing.faults import FaultEnded, fault_of
from tests.support.faulty_node import WITHIN_S, FaultyNode, faulty_node
from tests.support.running_node import NODE_ID
from tests.support.sasl import LISTENERS, client_exchange, sasl_port
from tests.support.wire_client import connected, framed, only


async def test_producer_retries_after_an_error_and_writes_once(tmp_path: Path) -> None:
    async with faulty_node(tmp_path) as node:
        topic = await node.topic("orders")
        with node.fault(api="Produce", topic=topic, error="NOT_LEADER_OR_FOLLOWER", times=2) as fault:
            assert await node.produce(topic, b"a", **{"client.id": "shop"}) == []
        assert fault.fired == 2
        firing = fault.firings[0]
        assert (firing.api, firing.client_id, firing.address, firing.node) == ("Produce", "shop", "127.0.0.1", NODE_ID)
        assert [subject.place for subject in firing.subjects] == [(topic, 0)]
        assert await node.read(topic, 1) == [b"a"]
        refused, again, written = node.served("Produce")
        assert [only(each.errors).error for each in (refused, again)] == ["NOT_LEADER_OR_FOLLOWER"] * 2
        assert refused.fault == again.fault == fault.id
        assert (written.errors, written.fault, written.outcome) == ((), None, "answered")


async def test_error_of_one_partition_leaves_the_others_alone(tmp_path: Path) -> None:
    async with faulty_node(tmp_path) as node:
        topic = await node.topic("orders", 2)
        with node.fault(api="Produce", topic=topic, partition=1, error="TOPIC_AUTHORIZATION_FAILED") as fault:
            assert await node.produce(topic, b"a") == []
            assert await node.produce(topic, b"b", partition=1) == ["TOPIC_AUTHORIZATION_FAILED"]
        assert fault.fired == 1
        assert await node.produce(topic, b"c", partition=1) == []
        assert await node.read(topic, 1, partition=1) == [b"c"]


async def test_held_request_is_carried_out_when_it_is_released(tmp_path: Path) -> None:
    async with faulty_node(tmp_path) as node, trio.open_nursery() as nursery:
        topic = await node.topic("orders")
        errors: list[str] = []

        async def produce() -> None:
            errors.extend(await node.produce(topic, b"a"))

        with node.fault(api="Produce", hold=True) as fault, trio.fail_after(WITHIN_S):
            nursery.start_soon(produce)
            await fault.wait_held()
            assert _end_offset(node, topic) == 0
            assert only(node.served("Produce")).outcome == "pending"
            fault.release()
            assert await node.read(topic, 1) == [b"a"]
        assert errors == []


async def test_end_of_a_fault_releases_held_requests(tmp_path: Path) -> None:
    async with faulty_node(tmp_path) as node, trio.open_nursery() as nursery:
        topic = await node.topic("orders")
        with node.fault(api="Produce", hold=True) as fault, trio.fail_after(WITHIN_S):
            nursery.start_soon(node.produce, topic, b"a")
            await fault.wait_held()
        assert await node.read(topic, 1) == [b"a"]
        with pytest.raises(FaultEnded):
            await fault.wait_fired(2)


@pytest.mark.parametrize("words", [{"hold": True}, {"drop": "hang"}], ids=["hold", "hang"])
async def test_node_stops_while_it_holds_a_request(tmp_path: Path, words: dict[str, Any]) -> None:
    with trio.fail_after(WITHIN_S):
        async with faulty_node(tmp_path) as node, connected(node.running.port) as client:
            fault = node.requests.begin(fault_of({"api": "Metadata", **words}))
            await client.send(MetadataRequest(topics=[]), 12)
            await fault.wait_held()
        assert node.running.traced.of("node_stopped")
        assert not node.running.traced.of("handler_failed")


async def test_delayed_request_is_carried_out_later(tmp_path: Path) -> None:
    async with faulty_node(tmp_path) as node:
        topic = await node.topic("orders")
        with node.fault(api="Produce", delay_ms=150, nth=1):
            assert await node.produce(topic, b"a") == []
        latency_ms = only(node.served("Produce")).latency_ms
        assert latency_ms is not None
        assert latency_ms >= 150


@pytest.mark.parametrize("drop", ["close", "hang"])
async def test_dropped_request_is_not_carried_out(tmp_path: Path, drop: str) -> None:
    async with faulty_node(tmp_path) as node:
        topic = await node.topic("orders")
        settings = {"message.timeout.ms": 400, "request.timeout.ms": 300} if drop == "hang" else {}
        with node.fault(api="Produce", drop=drop, times=1) as fault:
            errors = await node.produce(topic, b"a", **settings)
            assert fault.fired == 1
            assert errors == (["_MSG_TIMED_OUT"] if drop == "hang" else [])
        assert await node.produce(topic, b"b") == []
        assert await node.read(topic, 1) == ([b"b"] if drop == "hang" else [b"a"])
        assert node.served("Produce")[0].outcome in ("closed", "pending")


async def test_lost_answer_repeats_the_write_only_without_idempotence(tmp_path: Path) -> None:
    async with faulty_node(tmp_path) as node:
        for topic, idempotent, written in (("plain", False, 2), ("idempotent", True, 1)):
            await node.topic(topic)
            with node.fault(api="Produce", topic=topic, lose_answer=True, times=1) as fault:
                assert await node.produce(topic, b"a", **{"enable.idempotence": idempotent}) == []
                assert fault.fired == 1
            assert _end_offset(node, topic) == written


async def test_throttle_time_is_in_the_answer_and_mutes_the_connection(tmp_path: Path) -> None:
    async with faulty_node(tmp_path) as node, connected(node.running.port) as client:
        with node.fault(api="Metadata", throttle_ms=200, times=1):
            response = await client.call(MetadataRequest(topics=[]), 12)
            assert response.throttle_time_ms == 200
            muted_until = trio.current_time() + 0.15
            assert (await client.call(MetadataRequest(topics=[]), 12)).throttle_time_ms == 0
            assert trio.current_time() > muted_until


async def test_producer_is_told_of_its_throttle_time(tmp_path: Path) -> None:
    told: list[float] = []
    async with faulty_node(tmp_path) as node:
        topic = await node.topic("orders")
        with node.fault(api="Produce", throttle_ms=150, times=1):
            settings = {"throttle_cb": lambda event: told.append(event.throttle_time)}
            assert await node.produce(topic, b"a", **settings) == []
            assert await node.produce(topic, b"b", **settings) == []
    assert told[0] == pytest.approx(0.15)


async def test_client_does_not_see_a_topic_through_stale_metadata(tmp_path: Path) -> None:
    async with faulty_node(tmp_path) as node:
        await node.topic("old")
        with node.fault(api="Metadata", stale=True, client_id="reader"):
            await node.topic("new")
            assert await node.topics(client_id="reader") == {"old"}
            assert await node.topics(client_id="other") == {"old", "new"}
        assert await node.topics(client_id="reader") == {"old", "new"}


async def test_stale_metadata_does_not_know_a_later_topic(tmp_path: Path) -> None:
    async with faulty_node(tmp_path) as node, connected(node.running.port) as client:
        await node.topic("old")
        with node.fault(api="Metadata", stale=True, client_id="test"):
            await node.topic("new")
            every = await client.call(MetadataRequest(topics=None), 12)
            assert [(topic.name, topic.error_code) for topic in every.topics] == [("old", 0)]
            named = await client.call(MetadataRequest(topics=[MetadataRequestTopic(name="new")]), 12)
            assert only(named.topics).error_code == 3
        assert {topic.error_code for topic in (await client.call(MetadataRequest(topics=None), 12)).topics} == {0}


@pytest.mark.parametrize("data", ["empty", "torn"])
async def test_consumer_gets_all_records_after_lost_or_torn_data(tmp_path: Path, data: str) -> None:
    async with faulty_node(tmp_path) as node:
        topic = await node.topic("orders")
        for value in (b"a", b"b", b"c"):
            assert await node.produce(topic, value) == []
        with node.fault(api="Fetch", topic=topic, data=data, times=2) as fault:
            assert await node.read(topic, 3) == [b"a", b"b", b"c"]
        assert fault.fired == 2


async def test_fetch_session_ends_when_a_fault_of_fetch_begins_kip_227(tmp_path: Path) -> None:
    """A session omits partitions without news, so a fault could not answer for them."""
    async with faulty_node(tmp_path) as node, connected(node.running.port) as client:
        topic = await node.topic("orders")
        topics = [FetchTopic(topic=topic, partitions=[FetchPartition(partition=0, partition_max_bytes=1000)])]
        opened = await client.call(FetchRequest(session_epoch=0, topics=topics), 12)
        assert opened.session_id != 0
        with node.fault(api="Fetch", topic=topic, error="NOT_LEADER_OR_FOLLOWER"):
            later = await client.call(FetchRequest(session_id=opened.session_id, session_epoch=1), 12)
            assert later.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            full = await client.call(FetchRequest(session_epoch=0, topics=topics, max_wait_ms=60_000, min_bytes=1), 12)
            assert full.session_id == 0
            assert only(only(full.responses).partitions).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_part_of_a_forwarded_request_is_refused(tmp_path: Path) -> None:
    async with faulty_node(tmp_path) as node, connected(node.running.port) as client:
        with node.fault(api="CreateTopics", topic="bad", error="POLICY_VIOLATION"):
            request = CreateTopicsRequest(
                topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("bad", "good")],
                timeout_ms=60_000,
            )
            answered = await client.call(request, 7)
            assert {topic.name: topic.error_code for topic in answered.topics} == {
                "bad": ErrorCode.POLICY_VIOLATION,
                "good": ErrorCode.NONE,
            }
        served = only(node.served("CreateTopics"))  # the controller does not count it again
        assert [(each.error, each.subject.topic) for each in served.errors] == [("POLICY_VIOLATION", "bad")]


async def test_login_without_headers_passes_a_faulty_node_kip_43(tmp_path: Path) -> None:
    async with faulty_node(tmp_path, **LISTENERS) as node, connected(sasl_port(node.running)) as client:
        with node.fault(client_id="*", delay_ms=1):
            assert (await client.call(SaslHandshakeRequest(mechanism="PLAIN"), 0)).error_code == ErrorCode.NONE
            await client.send_bytes(framed(client_exchange("PLAIN").first()))
            assert await client.receive_frame() == b""
            assert (await client.call(MetadataRequest(topics=[]), 12)).brokers


async def test_requests_of_nodes_have_faults_only_by_their_client_id(tmp_path: Path) -> None:
    async with faulty_node(tmp_path, broker_heartbeat_interval_ms=100) as node:
        with node.fault(api="BrokerHeartbeat", delay_ms=1) as every, trio.fail_after(WITHIN_S):
            with node.fault(api="BrokerHeartbeat", client_id="broker-*", delay_ms=1) as of_brokers:
                await of_brokers.wait_fired(1)
            assert every.fired == 0


async def test_fault_of_a_group_leaves_other_groups_alone(tmp_path: Path) -> None:
    async with faulty_node(tmp_path) as node, connected(node.running.port) as client:
        with node.fault(api="Heartbeat", group="a*", error="REBALANCE_IN_PROGRESS"):
            assert (await client.call(HeartbeatRequest(group_id="other", generation_id=1), 4)).error_code != 27
        with node.fault(api="Heartbeat", group="mine", error="REBALANCE_IN_PROGRESS") as fault:
            assert (await client.call(HeartbeatRequest(group_id="other", generation_id=1), 4)).error_code != 27
            assert (await client.call(HeartbeatRequest(group_id="mine", generation_id=1), 4)).error_code == 27
        assert fault.fired == 1


def _end_offset(node: FaultyNode, topic: str) -> int:
    broker = node.running.node.broker
    assert broker is not None
    return broker.partitions.high_watermark(topic, 0)
