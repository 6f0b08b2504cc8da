"""The resources of the control port for faults of the protocol, the requests of clients, and events of Kafka.

`docs/testing-faults.md` has the words of faults and changes.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import attrs
import trio

from broker.client import Admin, TopicPartition, TransactionDescription
from jepsen.testing import kafka_events
from jepsen.testing.cluster_faults import FaultSpec
from jepsen.testing.cluster_view import ClusterView
from jepsen.testing.errors import ActionRefused, BadRequest, NotReached, NotThere
from jepsen.testing.faults.fault_words import ACTION_WORDS, FAULT_WORDS, SELECTING_WORDS
from jepsen.testing.hosted_cluster import HostedCluster
from jepsen.testing.kafka_events import EventRefused
from jepsen.testing.route import NODES_REFUSE, Route, Variant, union
from jepsen.testing.word_types import Word
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


async def _describe(cluster: HostedCluster, fault_id: str, words: Words) -> object:
    return await cluster.faults.describe(cluster.faults.find(fault_id))


async def _steer(cluster: HostedCluster, fault_id: str, words: Words) -> object:
    """Wait for a fault, or release the requests that it holds."""
    faults = cluster.faults
    fault = faults.find(fault_id)
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


async def _end(cluster: HostedCluster, fault_id: str, words: Words) -> object:
    return await cluster.faults.end(cluster.faults.find(fault_id))


async def change(cluster: HostedCluster, words: Words) -> object:
    """Cause an event of Kafka. Raises BadRequest, NotThere, ActionRefused, NotReached."""
    name = words.text("change")
    found = _CHANGES.get(name)
    if found is None:
        raise BadRequest(f"change {name!r} is none of {', '.join(_CHANGES)}")
    answer = await found.cause(cluster, words.narrowed(found.words))
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
    group, timeout_s = words.text("group"), words.number("timeout", _WAIT_S)
    words.end()
    config = cluster.own_config
    with trio.move_on_after(timeout_s):
        await _administer(cluster, lambda admin: kafka_events.start_rebalance(admin, group, config))
        return {"group": group}
    cure = "its members have to poll meanwhile, so a test that polls calls start_rebalance in a thread"
    raise NotReached(f"group {group} has not rebalanced after {timeout_s:g} s: {cure}")


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


_TOPIC: Final = Word.text("The topic.", required=True)
_PARTITION: Final = Word.integer("The partition.", default=0)
_GROUP: Final = Word.text("The group.", required=True)
_TRANSACTIONAL_ID: Final = Word.text("The transactional id.", required=True)


@attrs.frozen
class _Change:
    """An event of Kafka, and the words beside its name: exactly one of `one_of`."""

    cause: Callable[[HostedCluster, Words], Awaitable[dict[str, Any]]]
    words: Mapping[str, Word]
    one_of: Sequence[str] = ()


_CHANGES: Final[Mapping[str, _Change]] = {
    "advance_log_start": _Change(
        _advance_log_start,
        {
            "topic": _TOPIC,
            "partition": _PARTITION,
            "offset": Word.integer("Records before it are deleted; -1 deletes all that are committed.", default=-1),
        },
    ),
    "expire_offsets": _Change(
        _expire_offsets, {"group": _GROUP, "topic": Word.text("Only the offsets of this topic.")}
    ),
    "expire_transaction": _Change(_expire_transaction, {"transactional_id": _TRANSACTIONAL_ID}),
    "fence_producer": _Change(_fence_producer, {"transactional_id": _TRANSACTIONAL_ID}),
    "move_coordinator": _Change(
        _move_coordinator,
        {
            "group": Word.text("The group."),
            "transactional_id": Word.text("The transactional id, if there is no group."),
            "to": Word.integer("The id of the node that becomes the coordinator."),
        },
        ("group", "transactional_id"),
    ),
    "move_leader": _Change(
        _move_leader,
        {
            "topic": _TOPIC,
            "partition": _PARTITION,
            "to": Word.integer("The id of the node that becomes the leader; without it, the next replica in sync."),
        },
    ),
    "recreate_topic": _Change(_recreate_topic, {"topic": _TOPIC}),
    "start_rebalance": _Change(
        _start_rebalance,
        {"group": _GROUP, "timeout": Word.number("Seconds in which members have to poll.", default=_WAIT_S)},
    ),
}
_VARIANTS: Final = {name: Variant(change.words, change.one_of) for name, change in _CHANGES.items()}
_FAULT_PATH: Final = "/clusters/{cluster}/faults/{fault}"
FAULT_ROUTES: Final = (
    Route(
        "POST",
        "/clusters/{cluster}/faults",
        "beginFault",
        "Begin a fault of the protocol",
        "FaultCounts",
        begin_fault,
        FAULT_WORDS,
        one_of=tuple(ACTION_WORDS),
        refusals=(ActionRefused,),
        examples=(
            {"api": "Produce", "topic": "orders", "partition": 0, "error": "NOT_LEADER_OR_FOLLOWER", "times": 1},
            {"api": "Produce", "topic": "orders", "client_id": "shop*", "lose_answer": True, "nth": 1},
            {"api": ["Fetch", "Produce"], "node": 1, "client_id": "shop", "hold": True},
            {"api": "OffsetCommit", "group": "readers", "delay_ms": 500, "every": 2},
            {"api": "Fetch", "client_id": "shop", "data": "torn", "probability": 0.5, "seed": 7},
            {"api": "InitProducerId", "transactional_id": "payments", "drop": "close"},
            {"api": "Metadata", "client_id": "shop", "stale": True},
            {"api": "Produce", "client_id": "shop", "throttle_ms": 1000},
        ),
    ),
    Route("GET", _FAULT_PATH, "describeFault", "Describe a fault, with its firings", "Fault", _describe),
    Route(
        "POST",
        _FAULT_PATH,
        "steerFault",
        "Wait until a fault has fired or holds requests, or release the held requests",
        "FaultCounts",
        _steer,
        {
            "wait": Word.text("Wait until this count of the fault is reached.", _COUNTS),
            "count": Word.integer("The count.", default=1),
            "timeout": Word.number("Seconds.", default=_WAIT_S),
            "release": Word.true("Release the requests that it holds now."),
        },
        one_of=("wait", "release"),
        refusals=NODES_REFUSE,
        examples=({"wait": "fired", "count": 1, "timeout": 30}, {"release": True}),
    ),
    Route("DELETE", _FAULT_PATH, "endFault", "End a fault", "Fault", _end),
    Route(
        "POST",
        "/clusters/{cluster}/requests",
        "listRequests",
        "List the latest requests that nodes have got",
        "Requests",
        list_requests,
        SELECTING_WORDS,
        examples=(
            {"api": "Produce", "client_id": "shop", "topic": "orders", "partition": 0, "node": 1},
            {"group": "readers"},
            {"transactional_id": "payments"},
        ),
    ),
    Route(
        "POST",
        "/clusters/{cluster}/changes",
        "change",
        "Cause an event of Kafka",
        "Changed",
        change,
        union(_VARIANTS, "change", "The event."),
        chooser="change",
        variants=_VARIANTS,
        refusals=NODES_REFUSE,
        examples=(
            {"change": "move_leader", "topic": "orders", "partition": 0, "to": 2},
            {"change": "move_coordinator", "group": "readers"},
            {"change": "expire_offsets", "group": "payers", "topic": "payments"},
            {"change": "start_rebalance", "group": "readers", "timeout": 30},
            {"change": "expire_transaction", "transactional_id": "payments"},
            {"change": "fence_producer", "transactional_id": "payments"},
            {"change": "advance_log_start", "topic": "orders", "partition": 0, "offset": 1},
            {"change": "recreate_topic", "topic": "payments"},
        ),
    ),
)
