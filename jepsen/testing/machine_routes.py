"""The resources of the control port for faults of the disk and the clock of a node.

    POST /clusters/NAME/disks   {"node": 1, "full": true}, or a role as for actions; `jepsen.testing.faulty_disk`
    POST /clusters/NAME/clocks  {"controller": true, "offset_ms": -3600000}; without a node, the clocks of all
    POST /clusters/NAME/flips   {"leader_of": ["orders", 0], "topic": "orders", "partition": 0, "offset": 5, "seed": 1}

Faults begin and end as those of the protocol do. A flipped bit stays.
"""

from typing import Any

import attrs

from jepsen.testing.cluster_faults import FaultSpec
from jepsen.testing.cluster_view import ClusterView
from jepsen.testing.errors import BadRequest
from jepsen.testing.faulty_disk import DiskFault
from jepsen.testing.hosted_cluster import HostedCluster
from jepsen.testing.hosted_node import HostedNode
from jepsen.testing.node_clock import ClockFault
from jepsen.testing.node_faults import CLOCK, DISK
from jepsen.testing.targets import TARGETS, Target, read_target
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
