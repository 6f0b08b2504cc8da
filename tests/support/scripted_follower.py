"""A broker that only registers and fetches. The test decides when it fetches, and from which offset."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from broker.wire.api.broker_heartbeat import BrokerHeartbeatRequest
from broker.wire.api.broker_registration import BrokerRegistrationRequest, Feature, Listener
from broker.wire.api.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from broker.wire.api.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from broker.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from metadata.controller import SUPPORTED_FEATURES
from tests.support.running_node import RunningNode
from tests.support.wire_client import WireClient, connected, only

FETCH_VERSION = 17
FEATURES = tuple(
    Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
    for name, (lowest, highest) in SUPPORTED_FEATURES.items()
)


class ScriptedFollower:
    """Follows partition 0 of one topic. `client` is its connection to the leader."""

    def __init__(self, node: RunningNode, client: WireClient, controller: WireClient, broker_id: int) -> None:
        self._node = node
        self.client = client
        self._controller = controller
        self.broker_id = broker_id
        self.broker_epoch = -1
        self.topic_id = b""

    async def register(self) -> None:
        """Register as a new incarnation of the broker, and wait until it is unfenced."""
        request = BrokerRegistrationRequest(
            broker_id=self.broker_id,
            cluster_id=self._node.node.cluster_id,
            incarnation_id=f"{self.broker_id} {self.broker_epoch}".encode().ljust(16),
            listeners=[Listener(name="PLAINTEXT", host="nowhere", port=9092)],
            features=list(FEATURES),
            log_dirs=[f"directory {self.broker_id}".encode().ljust(16)],
        )
        response = await self._controller.call(request, 4)
        assert response.error_code == 0
        self.broker_epoch = response.broker_epoch
        assert not (await self.heartbeat()).is_fenced

    async def heartbeat(self, *, want_fence: bool = False) -> Any:
        request = BrokerHeartbeatRequest(
            broker_id=self.broker_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=1 << 40,
            want_fence=want_fence,
        )
        response = await self._controller.call(request, 1)
        assert response.error_code == 0
        return response

    async def create_topic(self, replicas: Sequence[int], **configs: str) -> None:
        """Create the topic to follow; `_` in a config's name stands for `.`. The first replica leads."""
        topic = CreatableTopic(
            name="topic",
            num_partitions=-1,
            replication_factor=-1,
            assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))],
            configs=[CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()],
        )
        created = only((await self.client.call(CreateTopicsRequest(topics=[topic], timeout_ms=1_000), 7)).topics)
        assert created.error_code == 0, created.error_message
        self.topic_id = created.topic_id

    def fetch_request(
        self,
        offset: int,
        *,
        leader_epoch: int = 0,
        last_fetched_epoch: int = -1,
        broker_epoch: int | None = None,
        max_wait_ms: int = 0,
    ) -> FetchRequest:
        """A Fetch of the records from `offset` on, which by default does not wait."""
        partition = FetchPartition(
            partition=0,
            current_leader_epoch=leader_epoch,
            fetch_offset=offset,
            last_fetched_epoch=last_fetched_epoch,
            log_start_offset=0,
            partition_max_bytes=1 << 20,
        )
        epoch = self.broker_epoch if broker_epoch is None else broker_epoch
        return FetchRequest(
            replica_state=ReplicaState(replica_id=self.broker_id, replica_epoch=epoch),
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            session_epoch=-1,
            topics=[FetchTopic(topic_id=self.topic_id, partitions=[partition])],
        )

    async def fetch(self, offset: int, **fields: Any) -> Any:
        """Fetch, and return the partition's part of the response."""
        return self.fetched(await self.client.call(self.fetch_request(offset, **fields), FETCH_VERSION))

    def fetched(self, response: Any) -> Any:
        assert response.error_code == 0
        return only(only(response.responses).partitions)

    async def isr(self) -> list[int]:
        """The ISR according to the cluster, in ascending order."""
        response = await self.client.call(DescribeTopicPartitionsRequest(topics=[TopicRequest(name="topic")]), 0)
        isr: list[int] = only(only(response.topics).partitions).isr_nodes
        return sorted(isr)


@asynccontextmanager
async def scripted_follower(node: RunningNode, broker_id: int = 2) -> AsyncIterator[ScriptedFollower]:
    """A broker that is registered and unfenced within the block."""
    async with connected(node.port) as client, connected(node.controller_port) as controller:
        follower = ScriptedFollower(node, client, controller, broker_id)
        await follower.register()
        yield follower
