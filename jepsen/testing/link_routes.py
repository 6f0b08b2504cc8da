"""The resource of the control port for faults of the network.

`source` and `target` name nodes, and the links from the one to the other; without one of them, all other nodes.
`groups` name the links between nodes of different groups; one group alone is apart from all other nodes. A node that is
named as for actions has links with the clients of `client_id` or `address`, or, without these, with all other nodes:
towards the node with the direction "in", from it with "out", by default both. An `isolated` node has links with all
other nodes and all clients. Faults begin and end as those of the protocol do.
"""

from collections.abc import Iterable, Sequence
from itertools import permutations
from typing import Any, Final

from jepsen.testing.cluster_faults import FaultSpec
from jepsen.testing.cluster_view import ClusterView
from jepsen.testing.errors import BadRequest
from jepsen.testing.hosted_cluster import HostedCluster
from jepsen.testing.links import LinkFault, read_conditions
from jepsen.testing.links.conditions import CONDITION_WORDS, LinkConditions
from jepsen.testing.node_faults import LINK
from jepsen.testing.route import NODES_REFUSE, Route
from jepsen.testing.targets import NODE_SCHEMA, TARGET_WORDS, TARGETS, Target, read_target, target_of
from jepsen.testing.word_types import Word
from jepsen.testing.words import Words

_IN: Final = "in"
_OUT: Final = "out"
_BOTH: Final = "both"
_DIRECTIONS: Final = (_IN, _OUT, _BOTH)


async def begin_link(cluster: HostedCluster, words: Words) -> object:
    """Put a fault of links in force. Raises BadRequest, NotThere, NotReached, ActionRefused."""
    shown = dict(words.all())
    conditions = read_conditions(words)
    fault = await _read_links(cluster, words, conditions)
    shown = {name: value for name, value in shown.items() if value is not None}
    links = _described(fault)
    spec = FaultSpec(LINK, {**shown, "links": links}, fault.as_words(), fault.concerned_nodes, conditions.times)
    begun = await cluster.faults.begin(spec)
    return {**cluster.faults.counts(begun), "links": links}


async def _read_links(cluster: HostedCluster, words: Words, conditions: LinkConditions) -> LinkFault:
    ways = [
        bool("groups" in words),
        "source" in words or "target" in words,
        any(word in words for word in (*TARGETS, "client_id", "address")),
        "isolated" in words,
    ]
    if sum(ways) != 1:
        named = f"by source and target, by groups, by isolated, or by one of {', '.join(TARGETS)}"
        raise BadRequest(f"links are named {named}")
    if ways[0]:
        groups = [_group(cluster, group) for group in words.items("groups")]
        words.end()
        return LinkFault(conditions, await _between(cluster, groups))
    if ways[1]:
        ends = [target_of(cluster, words.value(word)) if word in words else None for word in ("source", "target")]
        words.end()
        sources, targets = [[await _found(cluster, end)] if end else list(cluster.nodes) for end in ends]
        pairs = frozenset((source, target) for source in sources for target in targets if source != target)
        if not pairs:
            raise BadRequest("source and target are the same node")
        return LinkFault(conditions, pairs)
    if ways[3]:
        target = target_of(cluster, words.value("isolated"))
        words.end()
        node = await _found(cluster, target)
        pairs = frozenset(pair for pair in permutations(cluster.nodes, 2) if node in pair)
        return LinkFault(conditions, pairs, "*", None, frozenset([node]), to_nodes=True, from_nodes=True)
    return await _of_one_node(cluster, words, conditions)


async def _of_one_node(cluster: HostedCluster, words: Words, conditions: LinkConditions) -> LinkFault:
    """The links of a node with clients, or with all other nodes. Clients may be those of all nodes."""
    client_id = words.text("client_id") if "client_id" in words else None
    address = words.text("address") if "address" in words else None
    # One side of a half-open connection still takes it for connected: the client, if nothing else is said.
    default = _IN if conditions.half_open else _BOTH
    direction = words.text("direction") if "direction" in words else default
    if direction not in _DIRECTIONS:
        raise BadRequest(f"direction is one of {', '.join(_DIRECTIONS)}, not {direction!r}")
    target = read_target(cluster, words)
    words.end()
    nodes = frozenset(cluster.nodes) if target is None else frozenset([await _found(cluster, target)])
    is_in, is_out = direction != _OUT, direction != _IN
    if client_id is not None or address is not None:
        return LinkFault(conditions, frozenset(), client_id, address, nodes, is_in, is_out)
    others = [each for each in cluster.nodes if each not in nodes]
    pairs = [(other, node) for other in others for node in nodes if is_in]
    pairs += [(node, other) for other in others for node in nodes if is_out]
    if not pairs:
        raise BadRequest("the cluster has no other node; client_id names links with clients")
    return LinkFault(conditions, frozenset(pairs))


def _group(cluster: HostedCluster, group: object) -> list[Target]:
    if not isinstance(group, list):
        raise BadRequest(f"groups has to be a list of lists of nodes, not {group!r}")
    return [target_of(cluster, each) for each in group]


async def _between(cluster: HostedCluster, groups: Sequence[Iterable[Target]]) -> frozenset[tuple[int, int]]:
    """The links between nodes of different groups. All nodes that no group has are a last one."""
    found = [[await _found(cluster, each) for each in group] for group in groups]
    named = [node for group in found for node in group]
    if len(set(named)) != len(named):
        raise BadRequest(f"a node is in two groups: {found}")
    rest = [node for node in cluster.nodes if node not in named]
    parts = [*found, rest] if len(found) == 1 else found
    pairs = frozenset((a, b) for here, there in permutations(parts, 2) for a in here for b in there)
    if not pairs:
        raise BadRequest("there are no links between the groups")
    return pairs


async def _found(cluster: HostedCluster, target: Target) -> int:
    return (await target.find(ClusterView(cluster))).node_id


def _described(fault: LinkFault) -> list[list[Any]]:
    """The links for a person: senders and receivers, which are ids of nodes, or the words of clients."""
    links: list[list[Any]] = sorted(map(list, fault.pairs))
    clients = fault.client_id or fault.address
    for node in sorted(fault.nodes):
        links += [[clients, node]] * fault.to_nodes + [[node, clients]] * fault.from_nodes
    return links


LINK_ROUTES: Final = (
    Route(
        "POST",
        "/clusters/{cluster}/links",
        "breakLinks",
        "Cut, slow down or reset links between nodes, or between clients and nodes",
        "LinkFault",
        begin_link,
        {
            "source": Word.value("The node that sends; without it, all other nodes.", NODE_SCHEMA),
            "target": Word.value("The node that receives; without it, all other nodes.", NODE_SCHEMA),
            "groups": Word.items(
                "Groups of nodes, between which the links are. One group alone is apart from all other nodes.",
                {"type": "array", "items": NODE_SCHEMA},
            ),
            "isolated": Word.value("A node: its links with all other nodes and all clients.", NODE_SCHEMA),
            **TARGET_WORDS,
            "client_id": Word.text("Links of the clients with this id; `*` at its end makes it a prefix."),
            "address": Word.text("Links of clients at this host, or at this host and port."),
            "direction": Word.text(
                'Only towards the node, or only from it. The default is "both", and "in" with half_open.', _DIRECTIONS
            ),
            **CONDITION_WORDS,
        },
        refusals=NODES_REFUSE,
        examples=(
            {"client_id": "shop*", "leader_of": ["orders", 0], "direction": "out", "cut": True},
            {"source": 1, "target": 2, "black_hole": True},
            {"target": {"controller": True}, "latency_ms": 20},
            {"groups": [[1], [2, 3]], "cut": True},
            {"isolated": {"leader_of": ["orders", 0]}, "cut": True},
            {"node": 2, "latency_ms": 20, "jitter_ms": 5, "seed": 1, "bytes_per_s": 1000000},
            {"coordinator_of": "readers", "reset_after_bytes": 1000, "times": 1},
            {"controller": True, "address": "127.0.0.1:40000", "half_open": True},
        ),
    ),
)
