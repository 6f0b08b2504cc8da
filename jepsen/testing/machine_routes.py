"""The resources of the control port for faults of the disk and the clock of a node.

Faults begin and end as those of the protocol do. A flipped bit stays.
"""

from typing import Any, Final

import attrs

from jepsen.testing.cluster_faults import FaultSpec
from jepsen.testing.cluster_view import ClusterView
from jepsen.testing.errors import BadRequest
from jepsen.testing.faulty_disk import DISK_KINDS, DISK_WORDS, DiskFault
from jepsen.testing.hosted_cluster import HostedCluster
from jepsen.testing.hosted_node import HostedNode
from jepsen.testing.node_clock import CLOCK_WORDS, ClockFault
from jepsen.testing.node_faults import CLOCK, DISK
from jepsen.testing.route import NODES_REFUSE, Route
from jepsen.testing.targets import TARGET_WORDS, TARGETS, Target, read_target
from jepsen.testing.word_types import Word
from jepsen.testing.words import Words


async def begin_disk_fault(cluster: HostedCluster, words: Words) -> object:
    """Put a fault of one disk, or of all disks, in force. Raises BadRequest, NotThere, NotReached, ActionRefused."""
    target = read_target(cluster, words)
    fault = DiskFault.read(words)
    words.end()
    return await _begin(cluster, DISK, target, attrs.asdict(fault))


async def begin_clock_fault(cluster: HostedCluster, words: Words) -> object:
    """Put one clock, or all clocks, wrong. Raises BadRequest, NotThere, NotReached, ActionRefused."""
    target = read_target(cluster, words)
    fault = ClockFault.read(words)
    words.end()
    return await _begin(cluster, CLOCK, target, attrs.asdict(fault))


async def flip_bit(cluster: HostedCluster, words: Words) -> object:
    """Flip a bit of a log. Raises BadRequest, NotThere, NotReached, ActionRefused."""
    target = read_target(cluster, words)
    if target is None:
        raise BadRequest(f"a flipped bit is that of one node: one of {', '.join(TARGETS)}")
    topic, partition = words.text("topic"), words.integer("partition", 0)
    offset = words.integer("offset") if "offset" in words else None
    seed = words.integer("seed", 0)
    words.end()
    node = await _found(cluster, target)
    place = await node.call("flip_bit", topic=topic, partition=partition, offset=offset, seed=seed)
    cluster.note("bit_flipped", target=node.node_id, cause=target.cause, topic=topic, partition=partition, **place)
    return {"node": node.node_id, **place}


async def _begin(cluster: HostedCluster, kind: str, target: Target | None, fault: dict[str, Any]) -> object:
    nodes = None if target is None else [(await _found(cluster, target)).node_id]
    shown = {name: value for name, value in fault.items() if value}
    shown |= {"nodes": nodes or list(cluster.nodes)} | ({} if target is None else {"cause": target.cause})
    spec = FaultSpec(kind, shown, fault, None if nodes is None else frozenset(nodes))
    begun = await cluster.faults.begin(spec)
    return {**cluster.faults.counts(begun), "nodes": shown["nodes"]}


async def _found(cluster: HostedCluster, target: Target) -> HostedNode:
    return await target.find(ClusterView(cluster))


MACHINE_ROUTES: Final = (
    Route(
        "POST",
        "/clusters/{cluster}/disks",
        "breakDisk",
        "Make the disk of a node, or all disks, full, slow or broken",
        "NodeFault",
        begin_disk_fault,
        {**TARGET_WORDS, **DISK_WORDS},
        one_of=DISK_KINDS,
        refusals=NODES_REFUSE,
        examples=(
            {"node": 1, "full": True, "free_bytes": 1000000000},
            {"leader_of": ["orders", 0], "topic": "orders", "partition": 0, "sync_delay_ms": 100},
            {"coordinator_of": "readers", "topic": "archive", "read_error": True},
            {"controller": True, "topic": "archive", "sync_error": True},
        ),
    ),
    Route(
        "POST",
        "/clusters/{cluster}/clocks",
        "setClock",
        "Put the wall clock of a node, or all clocks, wrong",
        "NodeFault",
        begin_clock_fault,
        {**TARGET_WORDS, **CLOCK_WORDS},
        refusals=NODES_REFUSE,
        examples=(
            {"leader_of": ["orders", 0], "offset_ms": -3600000},
            {"node": 1, "offset_ms": 1000, "every_ms": 500},
            {"controller": True, "offset_ms": 1000},
            {"coordinator_of": "readers", "offset_ms": 1000},
        ),
    ),
    Route(
        "POST",
        "/clusters/{cluster}/flips",
        "flipBit",
        "Flip a bit of a batch in the log of a node; it stays",
        "FlippedBit",
        flip_bit,
        {
            **TARGET_WORDS,
            "topic": Word.text("The topic.", required=True),
            "partition": Word.integer("The partition.", default=0),
            "offset": Word.integer("An offset of the batch. Without it, the seed draws the batch."),
            "seed": Word.integer("Draws the bit.", default=0),
        },
        one_of=TARGETS,
        refusals=NODES_REFUSE,
        examples=(
            {"leader_of": ["payments", 0], "topic": "payments", "partition": 0, "offset": 0, "seed": 1},
            {"node": 1, "topic": "payments"},
            {"controller": True, "topic": "payments"},
            {"coordinator_of": "readers", "topic": "payments"},
        ),
    ),
)
