"""Questions to every broker of the cluster, before something counts as absent.

A broker may lag behind the others, and what a client has cached may be older still. So nothing counts as deleted, or as
not there, before every broker was asked.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeVar

import trio

from broker.client.brokers import Broker
from broker.client.cluster import Cluster
from broker.client.errors import ConnectionLost, KafkaError, UnsupportedByBroker
from broker.wire.api.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic

# A broker that takes longer is left out.
_TIMEOUT_S: Final = 3.0

_T = TypeVar("_T")


async def ask_every_broker(cluster: Cluster, ask: Callable[[Broker], Awaitable[_T]]) -> tuple[list[_T], bool]:
    """The answers of all brokers that can be reached, and whether no broker is missing among them.

    Raises as `Cluster.refresh` does.
    """
    await cluster.refresh()
    answers: list[_T] = []

    async def ask_one(node_id: int) -> None:
        with suppress(ConnectionLost, UnsupportedByBroker, KafkaError):
            answers.append(await ask(await cluster.broker(node_id)))

    asked = list(cluster.metadata.brokers)
    with trio.move_on_after(_TIMEOUT_S):
        async with trio.open_nursery() as nursery:
            for node_id in asked:
                nursery.start_soon(ask_one, node_id)
    return answers, len(answers) == len(asked)


async def look_for_topic(
    cluster: Cluster, name: str, is_meant: Callable[[MetadataResponseTopic], bool]
) -> tuple[bool, bool]:
    """Returns whether a broker knows the topic that is meant, and whether all brokers have answered.

    If one knows it, the metadata has the topic as that broker reports it. Raises as `Cluster.refresh` does.
    """
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)

    async def ask(broker: Broker) -> MetadataResponse:
        response: MetadataResponse = await broker.call(request)
        return response

    responses, is_complete = await ask_every_broker(cluster, ask)
    found = [response for response in responses if any(map(is_meant, response.topics))]
    for response in found:
        cluster.metadata.update(response, is_complete=False)
    cluster.notify_changed()
    return bool(found), is_complete
