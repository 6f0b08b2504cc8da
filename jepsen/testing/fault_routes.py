"""The resources of the control port for faults of the protocol, the requests of clients, and events of Kafka.

    POST   /clusters/NAME/faults      {"api": "Produce", "topic": "orders", "error": "REQUEST_TIMED_OUT", "times": 1}
    GET    /clusters/NAME/faults/ID   {"fired": 1, "held": 0, "ended": false, "firings": [{"client_id": "shop"}]}
    POST   /clusters/NAME/faults/ID   {"wait": "fired", "count": 1, "timeout": 30}, or {"release": true}
    DELETE /clusters/NAME/faults/ID   ends it; the answer is that of GET
    POST   /clusters/NAME/requests    {"api": "Produce", "client_id": "shop"}: the latest that match, of all nodes
    POST   /clusters/NAME/changes     {"change": "move_leader", "topic": "orders", "partition": 0, "to": 2}

`docs/testing-faults.md` has the words of faults and changes.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import trio

from broker.client import Admin, TopicPartition, TransactionDescription
from jepsen.testing import kafka_events
from jepsen.testing.cluster_faults import FaultSpec
from jepsen.testing.cluster_view import ClusterView
from jepsen.testing.control_server import Request
from jepsen.testing.errors import ActionRefused, BadRequest, NotReached, NotThere
from jepsen.testing.hosted_cluster import HostedCluster
from jepsen.testing.kafka_events import EventRefused
from jepsen.testing.words import Words

_WAIT_S: Final = 30.0
_LOOK_S: Final = 0.02
_ONGOING: Final = "Ongoing"
_COUNTS: Final = ("fired", "held")


async def begin_fault(cluster: HostedCluster, words: Words) -> object:
    fault = await cluster.faults.begin(FaultSpec.of_requests(words.all()))
    return cluster.faults.counts(fault)


async def list_requests(cluster: HostedCluster, words: Words) -> object:
    return {"requests": await cluster.faults.list_requests(words.all())}


async def serve_fault(cluster: HostedCluster, fault_id: str, request: Request) -> object:
    """Describe a fault, wait for it, release the requests that it holds, or end it."""
    faults = cluster.faults
    fault = faults.find(fault_id)
    if request.method == "DELETE":
        described = await faults.describe(fault)
        await faults.end(fault)
        return {**described, "ended": True}
    if request.method == "GET":
        return await faults.describe(fault)
    if request.method != "POST":
        raise NotThere(f"no {request.method} {request.path}")
    words = Words(request.body)
    if "release" in words:
        words.true("release")
        words.end()
        await faults.release(fault)
    else:
        word = words.text("wait")
        if word not in _COUNTS:
            raise BadRequest(f"wait is one of {', '.join(_COUNTS)}")
        wanted, timeout_s = words.integer("count", 1), words.number("timeout", _WAIT_S)
        words.end()
        await faults.wait(fault, word, wanted, timeout_s)
    return faults.counts(fault)


async def change(cluster: HostedCluster, words: Words) -> object:
    """Cause an event of Kafka. Raises BadRequest, NotThere, ActionRefused, NotReached."""
    name = words.text("change")
    cause = _CHANGES.get(name)
    if cause is None:
        raise BadRequest(f"change {name!r} is none of {', '.join(_CHANGES)}")
    answer = await cause(cluster, words)
    cluster.note("changed", change=name, **answer)
    return answer


async def _administer(cluster: HostedCluster, cause: Callable[[Admin], Awaitable[Any]]) -> Any:
    """The result of an event of Kafka."""
    results: list[Any] = []

    async def work(admin: Admin) -> None:
        try:
            results.append(await cause(admin))
        except EventRefused as refused:
            raise ActionRefused(str(refused)) from refused

    await cluster.administer(work)
    return results[0]


def _node(cluster: HostedCluster, words: Words, word: str) -> int | None:
    if word not in words:
        return None
    node_id = words.integer(word)
    if node_id not in cluster.nodes:
        raise NotThere(f"no node {node_id}; there are {', '.join(map(str, cluster.nodes))}")
    return node_id


async def _move_leader(cluster: HostedCluster, words: Words) -> dict[str, Any]:
    partition = TopicPartition(words.text("topic"), words.integer("partition", 0))
    to = _node(cluster, words, "to")
    words.end()
    leader = await _administer(cluster, lambda admin: kafka_events.move_leader(admin, partition, to))
    return {"topic": partition.topic, "partition": partition.partition, "leader": leader}


async def _move_coordinator(cluster: HostedCluster, words: Words) -> dict[str, Any]:
    group = words.text("group") if "group" in words else None
    transactional_id = words.text("transactional_id") if group is None else None
    to = _node(cluster, words, "to")
    words.end()
    partition = TopicPartition(*await ClusterView(cluster).coordinator_partition(group, transactional_id, _WAIT_S))
    leader = await _administer(cluster, lambda admin: kafka_events.move_leader(admin, partition, to))
    key = {"group": group} if group is not None else {"transactional_id": transactional_id}
    return {**key, "coordinator": leader}


async def _start_rebalance(cluster: HostedCluster, words: Words) -> dict[str, Any]:
    group = words.text("group")
    words.end()
    config = cluster.own_config
    await _administer(cluster, lambda admin: kafka_events.start_rebalance(admin, group, config))
    return {"group": group}


async def _fence_producer(cluster: HostedCluster, words: Words) -> dict[str, Any]:
    transactional_id = words.text("transactional_id")
    words.end()
    epoch = await _administer(cluster, lambda admin: kafka_events.fence_producer(admin, transactional_id))
    return {"transactional_id": transactional_id, "epoch": epoch}


async def _expire_transaction(cluster: HostedCluster, words: Words) -> dict[str, Any]:
    """Put the clock of the coordinator's node forward until the transaction has timed out, and back."""
    transactional_id = words.text("transactional_id")
    words.end()

    async def describe(admin: Admin) -> TransactionDescription:
        return (await admin.describe_transactions([transactional_id])).value(transactional_id)

    found = await _administer(cluster, describe)
    if found.state != _ONGOING:
        raise ActionRefused(f"{transactional_id} has no open transaction; its state is {found.state}")
    node = cluster.nodes[found.coordinator_id]
    await node.call("set_clock_ahead", ahead_s=found.timeout_ms / 1000)
    try:
        with trio.move_on_after(_WAIT_S) as scope:
            while (await _administer(cluster, describe)).state == _ONGOING:
                await trio.sleep(_LOOK_S)
    finally:
        with trio.CancelScope(shield=True):
            await node.call("set_clock_ahead", ahead_s=0)
    if scope.cancelled_caught:
        raise NotReached(f"the transaction of {transactional_id} is still open after {_WAIT_S:g} s")
    return {"transactional_id": transactional_id, "timeout_ms": found.timeout_ms}


async def _expire_offsets(cluster: HostedCluster, words: Words) -> dict[str, Any]:
    group = words.text("group")
    topic = words.text("topic") if "topic" in words else None
    words.end()
    partitions = await _administer(cluster, lambda admin: kafka_events.expire_offsets(admin, group, topic))
    return {"group": group, "partitions": [list(each) for each in partitions]}


async def _recreate_topic(cluster: HostedCluster, words: Words) -> dict[str, Any]:
    topic = words.text("topic")
    words.end()
    await _administer(cluster, lambda admin: kafka_events.recreate_topic(admin, topic))
    await ClusterView(cluster).until_known(topic, _WAIT_S)
    return {"topic": topic}


async def _advance_log_start(cluster: HostedCluster, words: Words) -> dict[str, Any]:
    partition = TopicPartition(words.text("topic"), words.integer("partition", 0))
    offset = words.integer("offset", -1)
    words.end()
    start = await _administer(cluster, lambda admin: kafka_events.advance_log_start(admin, partition, offset))
    return {"topic": partition.topic, "partition": partition.partition, "log_start_offset": start}


_CHANGES: Final[Mapping[str, Callable[[HostedCluster, Words], Awaitable[dict[str, Any]]]]] = {
    "advance_log_start": _advance_log_start,
    "expire_offsets": _expire_offsets,
    "expire_transaction": _expire_transaction,
    "fence_producer": _fence_producer,
    "move_coordinator": _move_coordinator,
    "move_leader": _move_leader,
    "recreate_topic": _recreate_topic,
    "start_rebalance": _start_rebalance,
}
