"""The nodes that actions and faults name: by an id, or by the role that a node has when it happens.

{"node": 2}   {"leader_of": ["orders", 0]}   {"coordinator_of": "readers"}   {"controller": true}
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import attrs

from jepsen.testing.cluster_view import ClusterView
from jepsen.testing.errors import BadRequest, NotThere
from jepsen.testing.hosted_cluster import HostedCluster
from jepsen.testing.hosted_node import HostedNode
from jepsen.testing.word_types import Word, object_schema
from jepsen.testing.words import Words

TARGET_WORDS: Final[Mapping[str, Word]] = {
    "node": Word.integer("The id of a node."),
    "leader_of": Word.partition("The node that leads this partition: a topic and a number."),
    "coordinator_of": Word.text("The coordinator of this group."),
    "controller": Word.true("The active controller."),
}
TARGETS: Final = tuple(TARGET_WORDS)
# A node as a value: an id, or an object with a role.
NODE_SCHEMA: Final = {"oneOf": [{"type": "integer"}, object_schema(TARGET_WORDS, TARGETS)]}
# For a role to be taken.
_WITHIN_S: Final = 30.0
# For a topic to be known to the nodes: its creation is acknowledged by the controller, which they follow. A name that
# they do not know for longer is misspelt.
_APPEARS_S: Final = 1.0


@attrs.frozen
class Target:
    """`cause` says for the timeline why a node was chosen. `find` raises NotReached if no node takes the role,
    and NotThere if there is no such partition."""

    find: Callable[[ClusterView], Awaitable[HostedNode]]
    cause: str


def read_target(cluster: HostedCluster, words: Words) -> Target | None:
    """Take the word that names a node; None without one. Raises BadRequest, NotThere."""
    given = [word for word in TARGETS if word in words]
    if not given:
        return None
    if len(given) > 1:
        raise BadRequest(f"{' and '.join(given)}: a node is named by one of {', '.join(TARGETS)}")
    [word] = given
    if word == "node":
        return _by_id(cluster, words.integer(word))
    if word == "leader_of":
        topic, partition = words.partition(word)
        leads = f"leader of {topic}-{partition}"
        return Target(lambda view: view.leader_of(topic, partition, _WITHIN_S, _APPEARS_S), leads)
    if word == "coordinator_of":
        group = words.text(word)
        return Target(lambda view: view.coordinator_of(group, _WITHIN_S), f"coordinator of group {group}")
    words.true(word)
    return Target(lambda view: view.controller(_WITHIN_S), "active controller")


def target_of(cluster: HostedCluster, value: object) -> Target:
    """The node of a value: an id, or an object with a role. Raises BadRequest, NotThere."""
    if isinstance(value, int) and not isinstance(value, bool):
        return _by_id(cluster, value)
    words = Words(dict(value) if isinstance(value, dict) else value, TARGET_WORDS)
    target = read_target(cluster, words)
    words.end()
    if target is None:
        raise BadRequest(f"a node is an id, or an object with one of {', '.join(TARGETS)}, not {value!r}")
    return target


def _by_id(cluster: HostedCluster, node_id: int) -> Target:
    if (node := cluster.nodes.get(node_id)) is None:
        raise NotThere(f"no node {node_id}; there are {', '.join(map(str, cluster.nodes))}")

    async def chosen(_: ClusterView) -> HostedNode:
        return node

    return Target(chosen, f"node {node_id}")
