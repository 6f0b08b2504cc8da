"""Routing, metadata and retries, with scripted nodes and with real ones."""

import socket as stdlib_socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
import trio
import trio.testing

from broker.client.cluster import Cluster
from broker.client.config import ClientConfig, read_config
from broker.client.errors import ClosedError, ConnectionLost, KafkaError, TimedOut, UnsupportedByBroker
from broker.client.open_cluster import open_cluster
from broker.client.types import Node, TopicPartition
from broker.wire.api import APIS
from broker.wire.api.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from broker.wire.api.describe_cluster import DescribeClusterRequest
from broker.wire.api.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from broker.wire.api.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from broker.wire.errors import ErrorCode
from tests.support.scripted_node import ScriptedNode, scripted_node

FAST = {"retry.backoff.ms": 5, "reconnect.backoff.ms": 5, "request.timeout.ms": 2_000}
ORDERS = TopicPartition("orders", 0)


def metadata(node: ScriptedNode, *, leader_epoch: int = 0) -> MetadataResponse:
    partition = MetadataResponsePartition(partition_index=0, leader_id=1, leader_epoch=leader_epoch)
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=node.port)],
        controller_id=1,
        topics=[MetadataResponseTopic(name="orders", topic_id=b"o" * 16, partitions=[partition])],
    )


Script = Callable[[ScriptedNode, Any], Any]


@asynccontextmanager
async def cluster_of(script: Script, **settings: object) -> AsyncIterator[tuple[ScriptedNode, Cluster]]:
    node: ScriptedNode

    def answer(request: Any) -> Any:
        return script(node, request)

    async with scripted_node(answer) as node:
        node.api_versions = [ApiVersion(api.key, api.min_version, api.max_version) for api in APIS.values()]
        config = read_config(ClientConfig, node.address, {**FAST, **settings})
        async with open_cluster(config) as cluster:
            yield node, cluster


async def test_refresh_learns_of_brokers_and_leaders_and_keeps_the_bootstrap_connection() -> None:
    async with cluster_of(lambda node, _: metadata(node)) as (node, cluster):
        await cluster.refresh(["orders"])
        assert cluster.metadata.leader(ORDERS) == (1, 0)
        assert (await cluster.broker(1)).node.id == 1
        assert node.connections == 1


async def test_requests_that_wait_have_a_connection_of_their_own() -> None:
    async with cluster_of(lambda node, _: metadata(node)) as (node, cluster):
        await cluster.refresh(["orders"])
        general, fetch = await cluster.broker(1), await cluster.broker(1, "fetch")
        assert general is not fetch
        assert fetch is await cluster.broker(1, "fetch")
        assert node.connections == 2


async def test_callers_that_wait_at_the_same_time_share_a_metadata_request() -> None:
    async with cluster_of(lambda node, _: metadata(node)) as (node, cluster):
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(cluster.refresh, ["orders"])
        assert len(node.requests) <= 2


async def test_a_lost_connection_is_made_again() -> None:
    async with cluster_of(lambda node, _: metadata(node)) as (node, cluster):
        await cluster.refresh(["orders"])
        first = await cluster.broker(1)
        node.drop_connections()
        while not first.is_lost:
            await trio.sleep(0.001)
        second = await cluster.broker(1)
        assert second is not first
        await second.call(MetadataRequest())


async def test_kip_899_bootstrap_servers_are_tried_again_when_no_known_broker_answers() -> None:
    async with scripted_node(lambda _: None) as gone:
        port = gone.port

    def moved_away(node: ScriptedNode, request: Any) -> MetadataResponse:
        told = metadata(node)
        if len(node.requests) == 1:
            told.brokers[0].port = port
        return told

    async with cluster_of(moved_away) as (_, cluster):
        await cluster.refresh(["orders"])
        for broker in [link.broker for link in cluster._links.connected()]:
            if broker is not None:
                broker.close()
        await cluster.retried(lambda: cluster.refresh(["orders"]), timeout_ms=5_000)
        assert cluster.metadata.brokers[1].port != port


async def test_no_broker_that_can_be_reached_is_an_error_that_names_them() -> None:
    async with scripted_node(lambda _: None) as gone:
        address = gone.address
    async with open_cluster(read_config(ClientConfig, address, FAST)) as cluster:
        with pytest.raises(ConnectionLost, match=address):
            await cluster.any_broker()
        with pytest.raises(TimedOut, match=address):
            await cluster.retried(cluster.any_broker, timeout_ms=50)


async def test_broker_that_refuses_connections_is_tried_again_only_after_reconnect_backoff_ms() -> None:
    async with scripted_node(lambda _: None) as gone:
        port = gone.port

    def moved_away(node: ScriptedNode, request: Any) -> MetadataResponse:
        told = metadata(node)
        told.brokers[0].port = port
        return told

    pauses = {"reconnect.backoff.ms": 100, "reconnect.backoff.max.ms": 100}
    async with cluster_of(moved_away, **pauses) as (_, cluster):
        await cluster.refresh(["orders"])
        began = trio.current_time()
        for _ in range(3):
            with pytest.raises(ConnectionLost):
                await cluster.broker(1)
        assert trio.current_time() - began >= 2 * 0.08, "a fifth of a pause is random"


@contextmanager
def frozen_server() -> Iterator[str]:
    """A port that takes connections and never answers, as that of a stopped process does."""
    with stdlib_socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


async def test_bootstrap_server_that_takes_connections_and_does_not_answer_is_passed_over() -> None:
    async with cluster_of(lambda node, _: metadata(node)) as (node, _):
        with frozen_server() as first, frozen_server() as second, frozen_server() as third:
            servers = [first, second, third, node.address]
            config = read_config(ClientConfig, servers, {"reconnect.backoff.ms": 5})
            with trio.fail_after(10):
                # The order of the servers is random, so one attempt may begin with the one that answers.
                for _ in range(4):
                    async with open_cluster(config) as cluster:
                        await cluster.refresh(["orders"])
                        assert cluster.metadata.leader(ORDERS) == (1, 0)


async def test_metadata_is_asked_of_another_broker_while_the_first_one_is_silent() -> None:
    answers = trio.Event()

    async def silent(_: Any) -> None:
        await answers.wait()

    async with scripted_node(silent) as frozen, cluster_of(lambda node, _: metadata(node)) as (node, _):
        frozen.api_versions = node.api_versions
        async with open_cluster(read_config(ClientConfig, frozen.address, FAST)) as cluster:
            await cluster.any_broker()
            cluster.config = read_config(ClientConfig, [frozen.address, node.address], {"retry.backoff.ms": 5})
            with trio.fail_after(5):
                await cluster.refresh(["orders"])
            assert cluster.metadata.leader(ORDERS) == (1, 0)
            assert len(frozen.requests) == 1
            # The silent connection still waits for its response, so later requests go to the other broker.
            assert (await cluster.any_broker()).node.port == node.port
        answers.set()


async def test_answer_of_a_slow_broker_counts_where_no_other_can_be_reached() -> None:
    async def slow(_: Any) -> MetadataResponse:
        await trio.sleep(1.3)
        return metadata(slow_node)

    with frozen_server() as frozen:
        async with scripted_node(slow) as slow_node:
            slow_node.api_versions = [ApiVersion(api.key, api.min_version, api.max_version) for api in APIS.values()]
            config = read_config(ClientConfig, [slow_node.address, frozen], {"retry.backoff.ms": 5})
            async with open_cluster(config) as cluster:
                with trio.fail_after(10):
                    await cluster.refresh(["orders"])
                assert len(slow_node.requests) == 1


async def test_controller_that_does_not_answer_is_replaced_by_a_broker_that_forwards() -> None:
    with frozen_server() as frozen:

        def script(node: ScriptedNode, _: Any) -> MetadataResponse:
            told = metadata(node)
            port = int(frozen.rpartition(":")[2])
            told.brokers.append(MetadataResponseBroker(node_id=2, host="127.0.0.1", port=port))
            told.controller_id = 2
            return told

        async with cluster_of(script) as (_, cluster):
            await cluster.refresh()
            with trio.fail_after(5):
                assert (await cluster.controller()).node.id == 1


async def test_broker_that_takes_connections_and_does_not_answer_is_unreachable_after_the_time_to_connect() -> None:
    with frozen_server() as frozen:
        settings = {"socket.connection.setup.timeout.ms": 100, "request.timeout.ms": 30_000}
        async with open_cluster(read_config(ClientConfig, frozen, settings)) as cluster:
            with trio.fail_after(5), pytest.raises(ConnectionLost, match="it takes connections, but does not answer"):
                await cluster.any_broker()


async def test_retried_tries_retriable_errors_again_and_raises_others_at_once() -> None:
    codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.INVALID_REQUEST]

    async def attempt() -> None:
        raise KafkaError(codes.pop(0))

    async with cluster_of(lambda node, _: metadata(node)) as (_, cluster):
        with pytest.raises(KafkaError) as raised:
            await cluster.retried(attempt, timeout_ms=5_000)
    assert raised.value.code is ErrorCode.INVALID_REQUEST
    assert codes == []


async def test_a_stale_mark_refreshes_the_metadata_in_the_background() -> None:
    epochs = iter(range(100))
    async with cluster_of(lambda node, _: metadata(node, leader_epoch=next(epochs))) as (_, cluster):
        cluster.follow_topics(["orders"])
        await cluster.refresh()
        version = cluster.metadata.version
        cluster.request_refresh()
        with trio.fail_after(5):
            await cluster.wait_for_change(version)
        leader = cluster.metadata.leader(ORDERS)
        assert leader is not None
        assert leader[1] >= 1


async def test_coordinator_is_looked_up_once_until_it_is_forgotten() -> None:
    def script(node: ScriptedNode, request: Any) -> Any:
        if isinstance(request, FindCoordinatorRequest):
            found = Coordinator(key="g", node_id=1, host="127.0.0.1", port=node.port)
            return FindCoordinatorResponse(coordinators=[found])
        return metadata(node)

    async with cluster_of(script) as (node, cluster):
        await cluster.refresh()
        for _ in range(3):
            assert (await cluster.coordinator("g")).node.id == 1
        assert sum(isinstance(request, FindCoordinatorRequest) for request in node.requests) == 1
        cluster.forget_coordinator("g")
        await cluster.coordinator("g")
        assert sum(isinstance(request, FindCoordinatorRequest) for request in node.requests) == 2


async def test_a_broker_without_the_api_is_named() -> None:
    async with cluster_of(lambda node, _: metadata(node)) as (node, cluster):
        node.api_versions = [ApiVersion(3, 0, 4)]
        broker = await cluster.any_broker()
        assert broker.version_of(MetadataRequest) == 4
        with pytest.raises(UnsupportedByBroker, match="DescribeCluster"):
            await broker.call(DescribeClusterRequest())
        with pytest.raises(UnsupportedByBroker, match="versions 0 to 4"):
            broker.version_of(MetadataRequest, lowest=5)


async def test_kip_511_a_broker_that_has_older_api_versions_is_asked_in_its_own() -> None:
    asked = []

    def api_versions(request: ApiVersionsRequest, version: int) -> tuple[ApiVersionsResponse, int]:
        asked.append(version)
        served = [ApiVersion(18, 0, 2), ApiVersion(3, 0, 4)]
        if version > 2:
            return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=served), 0
        return ApiVersionsResponse(api_keys=served), version

    async with cluster_of(lambda node, _: metadata(node)) as (node, cluster):
        node.answer_api_versions = api_versions
        assert (await cluster.any_broker()).versions[3] == (0, 4)
    assert asked == [5, 2]


@pytest.mark.parametrize("is_checked", [True, False])
async def test_kip_1242_client_at_another_broker_than_it_means_starts_over(is_checked: bool) -> None:
    """Broker 1 has moved, and another broker has got its address."""
    asked: list[tuple[str | None, int]] = []

    def another_broker(request: ApiVersionsRequest, version: int) -> tuple[ApiVersionsResponse, int]:
        asked.append((request.cluster_id, request.node_id))
        code = ErrorCode.REBOOTSTRAP_REQUIRED if request.cluster_id is not None else ErrorCode.NONE
        return ApiVersionsResponse(error_code=code, api_keys=other.api_versions), version

    async with scripted_node(lambda _: MetadataResponse()) as other:
        other.answer_api_versions = another_broker

        def moved(node: ScriptedNode, request: Any) -> MetadataResponse:
            told = metadata(node)
            told.cluster_id = "cluster"
            told.brokers[0].port = other.port if len(node.requests) == 1 else node.port
            return told

        async with cluster_of(moved, **{"metadata.cluster.check.enable": is_checked}) as (node, cluster):
            other.api_versions = node.api_versions
            await cluster.refresh(["orders"])
            if not is_checked:
                await cluster.broker(1)
                assert asked == [(None, -1)]
                return
            with pytest.raises(ConnectionLost, match="another node than broker 1 of the cluster answers"):
                await cluster.broker(1)
            assert (asked, cluster.metadata.brokers) == ([("cluster", 1)], {})
            await cluster.refresh(["orders"])
            assert cluster.metadata.brokers[1].port == node.port
            assert (await cluster.broker(1)).node.id == 1
            assert len(asked) == 1


async def test_kip_219_a_throttled_client_waits_before_its_next_request() -> None:
    def script(node: ScriptedNode, _: Any) -> MetadataResponse:
        told = metadata(node)
        told.throttle_time_ms = 100
        return told

    async with cluster_of(script) as (_, cluster):
        broker = await cluster.any_broker()
        await broker.call(MetadataRequest())
        since = trio.current_time()
        await broker.call(MetadataRequest())
        assert trio.current_time() - since >= 0.09


@pytest.mark.parametrize(
    "call", [Cluster.refresh, Cluster.any_broker, lambda cluster: cluster.broker(1)], ids=["refresh", "any", "one"]
)
async def test_background_task_that_is_about_to_run_when_its_client_closes_is_cancelled(
    call: Callable[[Cluster], Any],
) -> None:
    async with cluster_of(lambda node, _: metadata(node)) as (_, cluster):
        await cluster.refresh()
        due = trio.Event()

        async def wait_and_call() -> None:
            await due.wait()
            await call(cluster)

        cluster.nursery.start_soon(wait_and_call)
        await trio.testing.wait_all_tasks_blocked()
        due.set()


async def test_idle_connections_are_closed() -> None:
    async with cluster_of(lambda node, _: metadata(node), **{"connections.max.idle.ms": 20}) as (node, cluster):
        broker = await cluster.any_broker()
        await node.wait_for_end()
        assert broker.is_lost


async def test_nothing_is_left_after_the_block_and_calls_say_so() -> None:
    async with cluster_of(lambda node, _: metadata(node)) as (node, cluster):
        await cluster.refresh(["orders"])
    assert node.ends
    with pytest.raises(ClosedError):
        await cluster.any_broker()
    with pytest.raises(ClosedError):
        await cluster.refresh()


async def test_client_that_is_opened_in_a_cancelled_task_ends_at_once() -> None:
    is_cancelled = False
    with trio.fail_after(10), trio.CancelScope() as scope:
        scope.cancel()
        async with open_cluster(read_config(ClientConfig, "127.0.0.1:1", FAST)):
            try:
                await trio.lowlevel.checkpoint()
            except trio.Cancelled:
                is_cancelled = True
                raise
    assert is_cancelled


async def test_a_cancelled_block_can_still_reach_the_brokers_within_a_shield() -> None:
    async with cluster_of(lambda node, _: metadata(node)) as (node, _):
        config = read_config(ClientConfig, node.address, {**FAST})
        with trio.CancelScope() as scope:
            async with open_cluster(config) as cluster:
                try:
                    await cluster.refresh(["orders"])
                    scope.cancel()
                    await trio.sleep_forever()
                finally:
                    with trio.CancelScope(shield=True, deadline=trio.current_time() + 2):
                        before = len(node.requests)
                        await cluster.refresh(["orders"])
        assert scope.cancelled_caught
        assert len(node.requests) == before + 1


async def test_trouble_with_one_broker_is_told_after_the_time_that_is_tolerated() -> None:
    async with cluster_of(lambda node, _: metadata(node)) as (_, cluster):
        assert cluster.trouble_of(1) is None
        await cluster.refresh(["orders"])
        await cluster.broker(1, "fetch")
        assert cluster.trouble_of(1) is None
        failure = cluster.reachability.failed(cluster.metadata.brokers[1], ConnectionLost("refused"))
        assert str(cluster.trouble_of(1)) == str(failure)
        assert cluster.trouble_of(1, tolerated_ms=60_000) is None
        assert cluster.trouble_of(2) is None
        assert cluster.trouble() is None


async def test_trouble_of_a_client_that_has_reached_no_broker_is_told_for_each_of_them_at_once() -> None:
    """The bootstrap server responds, and no broker can be reached at the address that it gives."""
    async with cluster_of(lambda node, _: metadata(node)) as (_, cluster):
        failure = cluster.reachability.failed(Node(1, "127.0.0.1", 9), ConnectionLost("refused"))
        assert str(cluster.trouble(tolerated_ms=60_000)) == str(failure)
        assert str(cluster.trouble_of(2, tolerated_ms=60_000)) == str(failure)
