"""Valid requests of administrators, and of brokers to the controller, which tests mutate.

Harmful requests name another cluster, or a broker, voter or epoch that a few wrong bytes do not turn into an existing
one.
"""

from typing import Any

from broker.wire.api.add_raft_voter import AddRaftVoterRequest
from broker.wire.api.add_raft_voter import Listener as VoterListener
from broker.wire.api.allocate_producer_ids import AllocateProducerIdsRequest
from broker.wire.api.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from broker.wire.api.alter_partition import AlterPartitionRequest, BrokerState
from broker.wire.api.alter_partition import PartitionData as AlteredPartition
from broker.wire.api.alter_partition import TopicData as AlteredTopic
from broker.wire.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from broker.wire.api.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from broker.wire.api.assign_replicas_to_dirs import AssignReplicasToDirsRequest, Directory, Partition, Topic
from broker.wire.api.broker_heartbeat import BrokerHeartbeatRequest
from broker.wire.api.broker_registration import BrokerRegistrationRequest, Feature, Listener
from broker.wire.api.controller_registration import ControllerRegistrationRequest
from broker.wire.api.describe_quorum import DescribeQuorumRequest, RequestedPartition, RequestedTopic
from broker.wire.api.elect_leaders import ElectLeadersRequest, TopicPartitions
from broker.wire.api.envelope import EnvelopeRequest
from broker.wire.api.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from broker.wire.api.remove_raft_voter import RemoveRaftVoterRequest
from broker.wire.api.unregister_broker import UnregisterBrokerRequest
from broker.wire.api.unregister_controller import UnregisterControllerRequest
from broker.wire.api.update_features import FeatureUpdateKey, UpdateFeaturesRequest

FAR = 0x7F7F7F7F
FAR_EPOCH = 0x7F7F7F7F7F7F7F7F
NOBODY_ID = b"\x7f" * 16
ANOTHER_CLUSTER = "hostile-cluster"

Messages = list[tuple[Any, tuple[int, ...]]]


def admin_messages(topic: str) -> Messages:
    """Requests to any node, with the versions to send each in."""
    config = AlterableConfig(name="retention.ms", value="200000")
    of_group = AlterableConfig(name="consumer.heartbeat.interval.ms", value="6000")
    resources = [
        AlterConfigsResource(resource_type=2, resource_name=topic, configs=[config]),
        AlterConfigsResource(resource_type=32, resource_name="hostile-group", configs=[of_group]),
    ]
    return [
        (AlterConfigsRequest(resources=resources, validate_only=True), (0, 1, 2)),
        *_of_partitions(topic),
        *_of_the_quorum(),
        (UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(feature="hostile", max_version_level=1)]), (0, 1, 2)),
        (UnregisterBrokerRequest(broker_id=FAR), (0,)),
        (UnregisterControllerRequest(controller_id=FAR), (0,)),
    ]


def log_dir_messages(topic: str) -> Messages:
    """Requests to brokers about their log directories."""
    placed = AlterReplicaLogDir(path="/hostile", topics=[AlterReplicaLogDirTopic(name=topic, partitions=[0])])
    return [(AlterReplicaLogDirsRequest(dirs=[placed]), (1, 2))]


def _of_partitions(topic: str) -> Messages:
    elected = TopicPartitions(topic=topic, partitions=[0])
    moved = ReassignableTopic(name=topic, partitions=[ReassignablePartition(replicas=[FAR])])
    listed = ListPartitionReassignmentsTopics(name=topic, partition_indexes=[0])
    return [
        (ElectLeadersRequest(topic_partitions=[elected], timeout_ms=1000), (0, 1, 2)),
        (AlterPartitionReassignmentsRequest(topics=[moved], timeout_ms=1000), (0, 1)),
        (ListPartitionReassignmentsRequest(topics=[listed], timeout_ms=1000), (0,)),
    ]


def _of_the_quorum() -> Messages:
    asked = RequestedTopic(topic_name="__cluster_metadata", partitions=[RequestedPartition()])
    added = AddRaftVoterRequest(
        cluster_id=ANOTHER_CLUSTER,
        timeout_ms=100,
        voter_id=FAR,
        voter_directory_id=NOBODY_ID,
        listeners=[VoterListener(name="CONTROLLER", host="127.0.0.1", port=9)],
    )
    removed = RemoveRaftVoterRequest(cluster_id=ANOTHER_CLUSTER, voter_id=FAR, voter_directory_id=NOBODY_ID)
    return [(DescribeQuorumRequest(topics=[asked]), (0, 1, 2)), (added, (0, 1)), (removed, (0,))]


def controller_messages(envelopes: list[bytes]) -> Messages:
    """Requests of brokers, with the versions to send each in. `envelopes` are requests without their length."""
    broker = {"broker_id": FAR, "broker_epoch": FAR_EPOCH}
    registration = BrokerRegistrationRequest(
        broker_id=FAR,
        cluster_id=ANOTHER_CLUSTER,
        incarnation_id=NOBODY_ID,
        listeners=[Listener(name="PLAINTEXT", host="127.0.0.1", port=9)],
        features=[Feature(name="metadata.version", min_supported_version=1, max_supported_version=33)],
        log_dirs=[NOBODY_ID],
    )
    altered = AlteredPartition(new_isr=[1], new_isr_with_epochs=[BrokerState(broker_id=1)])
    isrs = AlterPartitionRequest(**broker, topics=[AlteredTopic(topic_id=NOBODY_ID, partitions=[altered])])
    placed = Directory(id_=NOBODY_ID, topics=[Topic(topic_id=NOBODY_ID, partitions=[Partition()])])
    principal, host = b"User:hostile", bytes([127, 0, 0, 1])
    return [
        (isrs, (2, 3)),
        (registration, (0, 2, 4)),
        (BrokerHeartbeatRequest(**broker, offline_log_dirs=[NOBODY_ID], cordoned_log_dirs=[NOBODY_ID]), (0, 1, 2)),
        (AllocateProducerIdsRequest(**broker), (0,)),
        (ControllerRegistrationRequest(controller_id=FAR, incarnation_id=NOBODY_ID), (0,)),
        (AssignReplicasToDirsRequest(**broker, directories=[placed]), (0,)),
        *(
            (EnvelopeRequest(request_data=data, request_principal=principal, client_host_address=host), (0,))
            for data in envelopes
        ),
    ]
