"""The handshake at the start of a connection between two nodes.

The connecting node sends a Hello, followed by its requests. The other node responds with its own Hello, which carries
the reason if it refuses the connection. Both check the peer's Hello before they handle any other message.
"""

from typing import Annotated, Final

from kraft import lazy_attrs
from kraft.bounds import DirectoryId, IsText, NodeId, Sentence
from kraft.core import ReplicaKey
from kraft.message_codec import decoder

PROTOCOL: Final = "kraft/2"
# Bytes of a Hello from a connecting node, which is not authenticated, and from the other one, with a refusal.
HELLO_BYTES_MAX: Final = 1_024
ANSWER_BYTES_MAX: Final = 4_096
# The time within which a connecting node has to send its Hello.
HELLO_TIMEOUT_S: Final = 10.0


@lazy_attrs.frozen
class Hello:
    """The cluster id, the node id, and the id of the directory that holds the node's log.

    `refusal` is the reason for which the node refuses the connection, or "".
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
    """Return the reason to refuse a connection with a node whose Hello is `theirs`, or "".

    An empty directory id matches any directory of the node. Only a quorum without directory ids accepts it.
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
