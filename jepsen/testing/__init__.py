"""Tests of applications against a real cluster: nodes as processes, which are killed, paused and started again.

    from jepsen.testing import Cluster

    with Cluster(nodes=3) as cluster:
        topic = cluster.topic("orders", partitions=3, replicas=3)
        cluster.kill(leader_of=(topic, 0))

There are three kinds of processes. `zygote` has imported everything and forks the others, so that a node serves after
some 50 ms. `supervisor` owns the clusters and serves the control port. A node is a fork of the zygote that runs
`broker.node.Node`. Each process ends with the one that has started it.

`simulate` runs an application against clusters in virtual time instead; see `jepsen.simulation.applications`.
"""

from typing import TYPE_CHECKING

from jepsen.testing.cluster import Cluster
from jepsen.testing.control_client import ControlError

if TYPE_CHECKING:
    from jepsen.simulation.applications import (
        Machine,
        SimulatedCluster,
        SimulatedRun,
        SimulationFailed,
        SimulationReport,
        simulate,
    )
else:
    from jepsen.testing.simulated_names import __getattr__ as __getattr__

__all__ = [
    "Cluster",
    "ControlError",
    "Machine",
    "SimulatedCluster",
    "SimulatedRun",
    "SimulationFailed",
    "SimulationReport",
    "simulate",
]
