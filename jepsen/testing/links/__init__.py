"""Faults of the network for nodes of a test cluster: sockets whose bytes pass through the faults of their links.

A link is directed: from a node to a node, from a client to a node, or back. `NodeLinks` makes the sockets by which a
node connects to others, as the simulator does (`trio.socket.set_custom_socket_factory`). Each is a socket of the
kernel. While no fault concerns it, a call goes straight to that. Otherwise a task carries its bytes in each direction,
and holds, delays, drops or counts them. Connections of clients have the kernel's sockets until a fault concerns them
(`relay`).
"""

from jepsen.testing.links.conditions import LinkConditions, LinkFault, read_conditions
from jepsen.testing.links.node_links import NodeLinks

__all__ = ["LinkConditions", "LinkFault", "NodeLinks", "read_conditions"]
