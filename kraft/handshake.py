"""How a connection between two nodes begins: each says who it is, before anything else counts.

The node that connects sends its Hello first, and its requests right behind it. The other answers with its own Hello,
which says why where it refuses the connection. Neither acts on anything it reads before it has checked the Hello.
"""

from typing import Annotated, Final

import attrs

from kraft.bounds import DirectoryId, IsText, NodeId, Sentence
from kraft.core import ReplicaKey
from kraft.message_codec import decoder

PROTOCOL: Final = "kraft/2"
# From a node that connects: it is not known yet. And from the one that answers, which may add a refusal.
HELLO_BYTES_MAX: Final = 1_024
ANSWER_BYTES_MAX: Final = 4_096
# How long a node that connects may take to say who it is.
HELLO_TIMEOUT_S: Final = 10.0


@attrs.frozen
class Hello:
    """Who a node is: the cluster's id, and the node's id with that of the directory that holds its log.

    `refusal` is why the node refuses the connection, or "".
    """

    protocol: Annotated[str, IsText(32)]
    cluster_id: Annotated[str, IsText(128)]
    node_id: NodeId
    directory_id: DirectoryId
    refusal: Sentence = ""

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.node_id, self.directory_id)


decode_hello: Final = decoder(Hello)


def hello(cluster_id: str, me: ReplicaKey) -> Hello:
    return Hello(PROTOCOL, cluster_id, me.node_id, me.directory_id)


def refusal_of(mine: Hello, theirs: Hello) -> str:
    """Why a connection from a node that says `theirs` is refused; "" if it is not.

    A replica without a directory id could pass for any disk of its node. Only a quorum without such ids takes it in.
    """
    if theirs.protocol != mine.protocol:
        return f"Node {mine.node_id} speaks {mine.protocol}, not {theirs.protocol}"
    if theirs.cluster_id != mine.cluster_id:
        return f"Node {mine.node_id} belongs to cluster {mine.cluster_id}, not {theirs.cluster_id}"
    if mine.directory_id and not theirs.directory_id:
        return f"Node {theirs.node_id} does not name its directory"
    if theirs.node_id == mine.node_id:
        return f"Node {mine.node_id} has the same node id"
    return ""
