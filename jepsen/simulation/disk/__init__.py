"""A simulated disk: the page cache, the durable data, and the ways in which a device fails."""

from jepsen.simulation.disk.files import SimulatedDisk, SimulatedFile
from jepsen.simulation.disk.volume import Volume

__all__ = ["SimulatedDisk", "SimulatedFile", "Volume"]
