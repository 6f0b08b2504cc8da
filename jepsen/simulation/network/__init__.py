"""A simulated network: hosts connected by links that can be cut, slow or lossy, with TCP as the kernel does it."""

from jepsen.simulation.network.network import Network
from jepsen.simulation.network.sockets import SimulatedResolver, SimulatedSocket, SimulatedSocketFactory

__all__ = ["Network", "SimulatedResolver", "SimulatedSocket", "SimulatedSocketFactory"]
