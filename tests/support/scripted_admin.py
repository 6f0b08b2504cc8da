"""An Admin of a node that answers from a script, with the versions of older brokers where a test wants them."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from broker.client import Admin
from broker.wire.api import APIS
from broker.wire.api.api_versions import ApiVersion
from broker.wire.api.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.support.scripted_node import ScriptedNode, scripted_node

FAST = {"retry.backoff.ms": 5, "reconnect.backoff.ms": 5, "request.timeout.ms": 2_000}

Script: TypeAlias = Mapping[type, Callable[[Any], Any]]


@asynccontextmanager
async def admin_of(
    script: Script, versions: Mapping[str, int] | None = None
) -> AsyncIterator[tuple[ScriptedNode, Admin]]:
    """A node that answers from the script, and answers Metadata itself unless the script does.

    `versions` are the highest versions of some APIs; -1 for an API that it does not serve.
    """
    node: ScriptedNode

    def answer(request: Any) -> Any:
        if isinstance(request, MetadataRequest) and MetadataRequest not in script:
            return metadata(node, [topic.name or "" for topic in request.topics or ()])
        return script[type(request)](request)

    async with scripted_node(answer) as node:
        node.api_versions = [
            ApiVersion(api.key, api.min_version, highest)
            for api in APIS.values()
            if (highest := (versions or {}).get(api.name, api.max_version)) >= 0
        ]
        async with Admin(node.address, config=FAST) as admin:
            yield node, admin


def metadata(node: ScriptedNode, topics: list[str], leader_id: int = 1) -> MetadataResponse:
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=node.port)],
        controller_id=1,
        topics=[
            MetadataResponseTopic(
                name=name,
                topic_id=name.encode().ljust(16),
                partitions=[MetadataResponsePartition(partition_index=0, leader_id=leader_id, leader_epoch=0)],
            )
            for name in topics
        ],
    )
