"""Tests of applications against a real cluster: nodes as processes, which are killed, paused and started again.

    from jepsen.testing import Cluster

    with Cluster(nodes=3) as cluster:
        topic = cluster.topic("orders", partitions=3, replicas=3)
        cluster.kill(leader_of=(topic, 0))

There are three kinds of processes. `zygote` has imported everything and forks the others, so that a node serves after
some 50 ms. `supervisor` owns the clusters and serves the control port. A node is a fork of the zygote that runs
`broker.node.Node`. Each process ends with the one that has started it.
"""

from jepsen.testing.cluster import Cluster
from jepsen.testing.control_client import ControlError

__all__ = ["Cluster", "ControlError"]
