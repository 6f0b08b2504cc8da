"""Requests of brokers to the controller: BrokerRegistration, BrokerHeartbeat, AllocateProducerIds, UnregisterBroker."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio

from broker.wire.api.allocate_producer_ids import AllocateProducerIdsRequest
from broker.wire.api.alter_partition import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from broker.wire.api.api_versions import ApiVersionsRequest
from broker.wire.api.broker_heartbeat import BrokerHeartbeatRequest
from broker.wire.api.broker_registration import BrokerRegistrationRequest, Feature, Listener
from broker.wire.api.controller_registration import ControllerRegistrationRequest
from broker.wire.api.describe_cluster import DescribeClusterRequest
from broker.wire.api.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from broker.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from broker.wire.api.unregister_broker import UnregisterBrokerRequest
from broker.wire.api.unregister_controller import UnregisterControllerRequest
from broker.wire.errors import ErrorCode
from metadata.controller import SUPPORTED_FEATURES
from tests.support.requests import create_topic
from tests.support.running_node import NODE_ID, RunningNode
from tests.support.wire_client import WireClient, connected, only

OTHER_ID = 2
# Less than the session timeout of nine seconds, which no request may have to wait for.
FENCED_WITHIN_S = 8.0
FEATURES = [
    Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
    for name, (lowest, highest) in SUPPORTED_FEATURES.items()
]


@pytest.fixture
async def controller(node: RunningNode) -> AsyncIterator[WireClient]:
    async with connected(node.controller_port) as client:
        yield client


def registration(node: RunningNode, **changes: Any) -> BrokerRegistrationRequest:
    """A registration request of a broker that does not exist."""
    request = BrokerRegistrationRequest(
        broker_id=OTHER_ID,
        cluster_id=node.node.cluster_id,
        incarnation_id=b"incarnation".ljust(16),
        listeners=[Listener(name="PLAINTEXT", host="other", port=9092)],
        features=FEATURES,
        rack="rack",
        log_dirs=[b"directory".ljust(16)],
    )
    for name, value in changes.items():
        setattr(request, name, value)
    return request


async def register(node: RunningNode, controller: WireClient) -> int:
    response = await controller.call(registration(node), 4)
    assert response.error_code == 0
    epoch: int = response.broker_epoch
    return epoch


async def heartbeat(controller: WireClient, epoch: int, *, offset: int | None = None, **wants: bool) -> Any:
    """Send a heartbeat of a broker that is caught up, unless `offset` says otherwise."""
    request = BrokerHeartbeatRequest(
        broker_id=OTHER_ID, broker_epoch=epoch, current_metadata_offset=epoch if offset is None else offset
    )
    for name, value in wants.items():
        setattr(request, name, value)
    return await controller.call(request, 1)


async def described(client: WireClient) -> dict[int, tuple[str, int, str | None, bool]]:
    response = await client.call(DescribeClusterRequest(include_fenced_brokers=True), 2)
    return {each.broker_id: (each.host, each.port, each.rack, each.is_fenced) for each in response.brokers}


async def test_a_broker_registers_fenced_and_is_unfenced_by_heartbeats(
    node: RunningNode, client: WireClient, controller: WireClient
) -> None:
    """KIP-631."""
    epoch = await register(node, controller)
    assert (await described(client))[OTHER_ID] == ("other", 9092, "rack", True)

    behind = await heartbeat(controller, epoch, offset=epoch - 1)
    assert (behind.is_caught_up, behind.is_fenced, behind.should_shut_down) == (False, True, False)

    ready = await heartbeat(controller, epoch)
    assert (ready.error_code, ready.is_caught_up, ready.is_fenced) == (0, True, False)
    assert (await described(client))[OTHER_ID] == ("other", 9092, "rack", False)


async def test_a_broker_may_stay_fenced_and_be_told_to_go(
    node: RunningNode, client: WireClient, controller: WireClient
) -> None:
    epoch = await register(node, controller)

    fenced = await heartbeat(controller, epoch, want_fence=True)
    assert (fenced.is_caught_up, fenced.is_fenced) == (True, True)

    leaving = await heartbeat(controller, epoch, want_fence=True, want_shut_down=True)
    assert (leaving.is_fenced, leaving.should_shut_down) == (True, True)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"cluster_id": "elsewhere"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"log_dirs": []}, ErrorCode.INVALID_REGISTRATION),
        ({"features": []}, ErrorCode.UNSUPPORTED_VERSION),
        ({"is_migrating_zk_broker": True}, ErrorCode.BROKER_ID_NOT_REGISTERED),
        ({"broker_id": NODE_ID}, ErrorCode.DUPLICATE_BROKER_REGISTRATION),
    ],
)
async def test_invalid_broker_registration_is_refused(
    node: RunningNode, controller: WireClient, changes: dict[str, Any], code: ErrorCode
) -> None:
    response = await controller.call(registration(node, **changes), 4)

    assert (response.error_code, response.broker_epoch) == (code, -1)


async def test_versions_without_log_directories_are_refused(node: RunningNode, controller: WireClient) -> None:
    response = await controller.call(registration(node, log_dirs=[]), 1)

    assert response.error_code == ErrorCode.INVALID_REGISTRATION


async def test_heartbeat_of_another_incarnation_is_stale(node: RunningNode, controller: WireClient) -> None:
    epoch = await register(node, controller)

    response = await heartbeat(controller, epoch + 1)

    assert (response.error_code, response.is_fenced) == (ErrorCode.STALE_BROKER_EPOCH, True)


async def test_a_broker_whose_connection_broke_is_fenced_without_waiting_for_its_session(
    node: RunningNode, client: WireClient, controller: WireClient
) -> None:
    async with connected(node.controller_port) as connection:
        epoch = await register(node, connection)
        assert not (await heartbeat(connection, epoch)).is_fenced

    with trio.fail_after(FENCED_WITHIN_S):
        while not (await described(client))[OTHER_ID][3]:
            await trio.sleep(0.01)


async def test_producer_id_blocks_are_disjoint(node: RunningNode, controller: WireClient) -> None:
    """KIP-730."""
    epoch = await register(node, controller)
    request = AllocateProducerIdsRequest(broker_id=OTHER_ID, broker_epoch=epoch)

    one, other = await controller.call(request, 0), await controller.call(request, 0)
    stale = await controller.call(AllocateProducerIdsRequest(broker_id=OTHER_ID, broker_epoch=epoch + 1), 0)

    assert (one.error_code, one.producer_id_len) == (0, 1000)
    assert other.producer_id_start == one.producer_id_start + one.producer_id_len
    assert stale.error_code == ErrorCode.STALE_BROKER_EPOCH


@pytest.mark.parametrize("port", ["port", "controller_port"])
async def test_a_broker_is_forgotten(node: RunningNode, controller: WireClient, port: str) -> None:
    await register(node, controller)
    async with connected(getattr(node, port)) as client:
        gone = await client.call(UnregisterBrokerRequest(broker_id=OTHER_ID), 0)
        unknown = await client.call(UnregisterBrokerRequest(broker_id=OTHER_ID), 0)

    assert (gone.error_code, gone.error_message) == (0, None)
    assert (unknown.error_code, bool(unknown.error_message)) == (ErrorCode.BROKER_ID_NOT_REGISTERED, True)


@pytest.mark.parametrize("port", ["port", "controller_port"])
async def test_controller_is_forgotten_kip_1312(node: RunningNode, controller: WireClient, port: str) -> None:
    registration = ControllerRegistrationRequest(controller_id=OTHER_ID, incarnation_id=bytes(16))
    assert (await controller.call(registration, 0)).error_code == 0
    async with connected(getattr(node, port)) as client:
        codes = []
        for controller_id in (OTHER_ID, OTHER_ID, NODE_ID):
            response = await client.call(UnregisterControllerRequest(controller_id=controller_id), 0)
            codes.append((response.error_code, bool(response.error_message)))

    assert codes == [
        (ErrorCode.NONE, False),
        (ErrorCode.CONTROLLER_ID_NOT_REGISTERED, True),
        (ErrorCode.INVALID_REQUEST, True),
    ]


# ApiVersions of a controller's listener (KIP-919)


async def test_controllers_describe_themselves(node: RunningNode, controller: WireClient) -> None:
    response = await controller.call(DescribeClusterRequest(endpoint_type=2), 2)

    described = only(response.brokers)
    assert (response.error_code, response.endpoint_type) == (0, 2)
    assert (response.cluster_id, response.controller_id) == (node.node.cluster_id, NODE_ID)
    assert (described.broker_id, described.host, described.port) == (NODE_ID, "127.0.0.1", node.controller_port)


@pytest.mark.parametrize(
    ("endpoint_type", "version", "code", "message"),
    [
        (
            1,
            0,
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type CONTROLLER, but we wanted an endpoint of type BROKER",
        ),
        (7, 1, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, "Unsupported endpoint type 7"),
    ],
)
async def test_a_controller_does_not_describe_brokers(
    controller: WireClient, endpoint_type: int, version: int, code: ErrorCode, message: str
) -> None:
    response = await controller.call(DescribeClusterRequest(endpoint_type=endpoint_type), version)

    assert (response.error_code, response.error_message, response.brokers) == (code, message, [])


async def test_controllers_advertise_their_apis(client: WireClient, controller: WireClient) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    of_controllers = {each.api_key for each in (await controller.call(request, 4)).api_keys}
    of_brokers = {each.api_key for each in (await client.call(request, 4)).api_keys}

    of_both = {
        17,
        18,
        19,
        20,
        29,
        30,
        31,
        32,
        33,
        36,
        37,
        38,
        39,
        40,
        43,
        44,
        45,
        46,
        49,
        50,
        51,
        55,
        57,
        60,
        64,
        80,
        81,
        94,
    }
    assert of_controllers == of_both | {56, 58, 62, 63, 67, 70, 73}
    assert of_brokers & of_controllers == of_both


# AlterPartition (KIP-497)


def proposal(
    epoch: int, topic_id: bytes, version: int, *, index: int = 0, isr: tuple[int, ...] = (OTHER_ID,), **changes: int
) -> AlterPartitionRequest:
    """A leader's AlterPartition request for the ISR `isr`."""
    partition = PartitionData(partition_index=index, leader_epoch=0, partition_epoch=0)
    if version >= 3:
        partition.new_isr_with_epochs = [BrokerState(broker_id=broker_id) for broker_id in isr]
    else:
        partition.new_isr = list(isr)
    for name, value in changes.items():
        setattr(partition, name, value)
    topics = [TopicData(topic_id=topic_id, partitions=[partition])]
    return AlterPartitionRequest(broker_id=OTHER_ID, broker_epoch=epoch, topics=topics)


@pytest.mark.parametrize("version", [2, 3])
async def test_leader_proposes_the_isr(
    node: RunningNode, client: WireClient, controller: WireClient, version: int
) -> None:
    epoch = await register(node, controller)
    assert not (await heartbeat(controller, epoch)).is_fenced
    topic_id = await create_topic(client, replicas=[OTHER_ID])

    async def altered(request: AlterPartitionRequest) -> Any:
        response = await controller.call(request, version)
        assert response.error_code == 0
        topic = only(response.topics)
        assert topic.topic_id == request.topics[0].topic_id
        return only(topic.partitions)

    confirmed = await altered(proposal(epoch, topic_id, version))
    assert (confirmed.error_code, confirmed.partition_index) == (0, 0)
    assert (confirmed.leader_id, confirmed.leader_epoch, confirmed.partition_epoch) == (OTHER_ID, 0, 0)
    assert (confirmed.isr, confirmed.leader_recovery_state) == ([OTHER_ID], 0)

    for request, code in (
        (proposal(epoch, b"unknown".ljust(16), version), ErrorCode.UNKNOWN_TOPIC_ID),
        (proposal(epoch, topic_id, version, index=1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (proposal(epoch, topic_id, version, isr=(OTHER_ID, NODE_ID)), ErrorCode.INVALID_REQUEST),
        (proposal(epoch, topic_id, version, leader_recovery_state=1), ErrorCode.INVALID_REQUEST),
        (proposal(epoch, topic_id, version, leader_epoch=-1), ErrorCode.FENCED_LEADER_EPOCH),
        (proposal(epoch, topic_id, version, partition_epoch=-1), ErrorCode.INVALID_UPDATE_VERSION),
        (proposal(epoch, topic_id, version, leader_epoch=1), ErrorCode.NOT_CONTROLLER),
    ):
        assert (await altered(request)).error_code == code


async def test_the_epochs_of_members_are_checked(node: RunningNode, client: WireClient, controller: WireClient) -> None:
    """KIP-903."""
    epoch = await register(node, controller)
    assert not (await heartbeat(controller, epoch)).is_fenced
    request = proposal(epoch, await create_topic(client, replicas=[OTHER_ID]), 3)

    request.topics[0].partitions[0].new_isr_with_epochs[0].broker_epoch = epoch - 1
    former = only(only((await controller.call(request, 3)).topics).partitions)
    request.broker_epoch = epoch - 1
    stale = await controller.call(request, 3)

    assert former.error_code == ErrorCode.INELIGIBLE_REPLICA
    assert (stale.error_code, stale.topics) == (ErrorCode.STALE_BROKER_EPOCH, [])


# Metadata of partitions whose leader a client cannot reach


@pytest.mark.parametrize(
    ("listener", "version", "code"),
    [
        ("INTERNAL", 0, ErrorCode.LEADER_NOT_AVAILABLE),
        ("INTERNAL", 5, ErrorCode.LEADER_NOT_AVAILABLE),
        ("INTERNAL", 6, ErrorCode.LISTENER_NOT_FOUND),
        ("INTERNAL", 12, ErrorCode.LISTENER_NOT_FOUND),
        ("PLAINTEXT", 12, ErrorCode.NONE),
    ],
)
async def test_a_leader_that_does_not_have_the_clients_listener(
    node: RunningNode, client: WireClient, controller: WireClient, listener: str, version: int, code: ErrorCode
) -> None:
    request = registration(node, listeners=[Listener(name=listener, host="other", port=9092)])
    epoch = (await controller.call(request, 4)).broker_epoch
    assert not (await heartbeat(controller, epoch)).is_fenced
    await create_topic(client, replicas=[OTHER_ID])

    response = await client.call(MetadataRequest(topics=[MetadataRequestTopic(name="topic")]), version)

    partition = only(only(response.topics).partitions)
    is_reached = code is ErrorCode.NONE
    assert (partition.error_code, partition.leader_id) == (code, OTHER_ID if is_reached else -1)
    assert partition.replica_nodes == partition.isr_nodes == ([OTHER_ID] if version > 0 else [])
    if version >= 5:
        assert partition.offline_replicas == ([] if is_reached else [OTHER_ID])
    assert (OTHER_ID in [each.node_id for each in response.brokers]) == is_reached


async def test_a_partition_without_a_leader(node: RunningNode, client: WireClient) -> None:
    """Only Metadata returns an error for it; DescribeTopicPartitions returns the partition without a leader
    (KIP-966).
    """
    async with connected(node.controller_port) as connection:
        epoch = await register(node, connection)
        assert not (await heartbeat(connection, epoch)).is_fenced
        await create_topic(client, replicas=[OTHER_ID])

    with trio.fail_after(FENCED_WITHIN_S):
        while not (await described(client))[OTHER_ID][3]:
            await trio.sleep(0.01)
    told = await client.call(MetadataRequest(topics=[MetadataRequestTopic(name="topic")]), 12)
    pages = await client.call(DescribeTopicPartitionsRequest(topics=[TopicRequest(name="topic")]), 0)

    of_metadata, of_pages = (only(only(response.topics).partitions) for response in (told, pages))
    assert (of_metadata.error_code, of_metadata.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert (of_pages.error_code, of_pages.leader_id) == (0, -1)
    assert of_metadata.offline_replicas == of_pages.offline_replicas == [OTHER_ID]
