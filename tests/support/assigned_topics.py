"""Topics whose replicas a test chooses."""

from collections.abc import Sequence

import trio

from broker.client.admin import Admin, NewTopic
from tests.support.cluster_process import ClusterProcess


def create_assigned(cluster: ClusterProcess, topic: str, *replicas: Sequence[int], **configs: str) -> None:
    """Create a topic whose partitions have these replicas, and wait until every broker knows it."""
    given = {name.replace("_", "."): value for name, value in configs.items()}

    async def request() -> None:
        async with Admin(cluster.nodes[1].bootstrap) as admin:
            new = NewTopic(topic, assignments=dict(enumerate(replicas)), configs=given)
            (await admin.create_topics([new])).raise_first()

    trio.run(request)
    cluster.ask_every_broker(bool, "topics", "describe", topic)
