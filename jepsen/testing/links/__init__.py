"""Faults of the network for nodes of a test cluster: sockets whose bytes pass through the faults of their links.

A link is directed: from a node to a node, from a client to a node, or back. `NodeLinks` makes the sockets of a node, as
the simulator does (`trio.socket.set_custom_socket_factory`), so that the node's own code is unchanged. Each is a socket
of the kernel. While no fault concerns it, a call goes straight to that. Otherwise a task carries its bytes in each
direction, and holds, delays, drops or counts them.
"""

from jepsen.testing.links.conditions import LinkConditions, LinkFault, read_conditions
from jepsen.testing.links.node_links import NodeLinks

__all__ = ["LinkConditions", "LinkFault", "NodeLinks", "read_conditions"]
