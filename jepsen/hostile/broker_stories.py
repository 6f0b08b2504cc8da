"""A broker that registers with the controller, and then sends false data about itself, its directories and ISRs."""

from typing import Any, Final

from broker.wire.api.alter_partition import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from broker.wire.api.assign_replicas_to_dirs import AssignReplicasToDirsRequest, Directory, Partition, Topic
from broker.wire.api.broker_heartbeat import BrokerHeartbeatRequest
from broker.wire.api.broker_registration import BrokerRegistrationRequest
from broker.wire.registered import Feature, Listener
from jepsen.hostile.frames import Frame
from jepsen.hostile.story import Story, StoryTools
from jepsen.hostile.target import FAKE_BROKER_ID, FAKE_DIRECTORY, FAKE_INCARNATION, NODE_ID, UNKNOWN_ID

_INTS: Final = (-1, 0, 1, 2, 2**31 - 1, -(2**31))
_LONGS: Final = (-1, 0, 1, 2**63 - 1, -(2**63), 2**40)
_REGISTRATION_VERSION: Final = 4


def registration(cluster_id: str, incarnation_id: bytes = FAKE_INCARNATION) -> BrokerRegistrationRequest:
    """The request with which the fake broker registers."""
    return BrokerRegistrationRequest(
        broker_id=FAKE_BROKER_ID,
        cluster_id=cluster_id,
        incarnation_id=incarnation_id,
        listeners=[Listener(name="PLAINTEXT", host="127.0.0.1", port=9)],
        features=[
            Feature(name="metadata.version", min_supported_version=1, max_supported_version=100),
            Feature(name="kraft.version", min_supported_version=0, max_supported_version=1),
            Feature(name="group.version", min_supported_version=0, max_supported_version=1),
            Feature(name="transaction.version", min_supported_version=0, max_supported_version=2),
            Feature(name="eligible.leader.replicas.version", min_supported_version=0, max_supported_version=1),
            Feature(name="share.version", min_supported_version=0, max_supported_version=2),
            Feature(name="streams.version", min_supported_version=0, max_supported_version=1),
        ],
        log_dirs=[FAKE_DIRECTORY],
        rack=None,
    )


def broker_incarnation(tools: StoryTools) -> Story:
    """Register, send heartbeats until unfenced, then invalid requests, and finally a request to shut down."""
    rng = tools.rng
    incarnation = rng.choice((FAKE_INCARNATION, FAKE_INCARNATION, rng.randbytes(16)))
    registers = registration(tools.target.cluster_id, incarnation)
    (response,) = yield [tools.request(registers, _REGISTRATION_VERSION)]
    epoch = getattr(response, "broker_epoch", -1)
    for _ in range(4):
        frames = [tools.request(_heartbeat(tools, epoch))]
        for _ in range(rng.randint(3, 10)):
            message = rng.choice((_heartbeat, _isrs, _directories))(tools, epoch)
            frames.append(tools.changed(message) if rng.random() < 0.2 else tools.request(message))
        yield frames
    yield [_last(tools, epoch)]


def _heartbeat(tools: StoryTools, epoch: int) -> BrokerHeartbeatRequest:
    rng = tools.rng
    return BrokerHeartbeatRequest(
        broker_id=FAKE_BROKER_ID,
        broker_epoch=rng.choice((epoch, epoch, epoch, epoch, epoch - 1, *_LONGS)),
        current_metadata_offset=rng.choice((2**62, 0, 2**63 - 1, -1, 100)),
        want_fence=rng.random() < 0.3,
        want_shut_down=rng.random() < 0.1,
        offline_log_dirs=rng.choice(([], [], [FAKE_DIRECTORY], [UNKNOWN_ID] * 3)),
    )


def _isrs(tools: StoryTools, epoch: int) -> AlterPartitionRequest:
    rng = tools.rng
    brokers = [
        BrokerState(broker_id=rng.choice((NODE_ID, FAKE_BROKER_ID, *_INTS)), broker_epoch=rng.choice((epoch, *_LONGS)))
        for _ in range(rng.randrange(4))
    ]
    altered = PartitionData(
        partition_index=rng.choice((0, 1, 2, *_INTS)),
        leader_epoch=rng.choice((0, 1, *_INTS)),
        new_isr=[each.broker_id for each in brokers],
        new_isr_with_epochs=brokers,
        leader_recovery_state=rng.choice((0, 1, 2, -1)),
        partition_epoch=rng.choice((0, 1, *_INTS)),
    )
    topic = TopicData(
        topic_id=rng.choice((*tools.target.topic_ids, UNKNOWN_ID)), partitions=[altered] * rng.randrange(3)
    )
    return AlterPartitionRequest(
        broker_id=FAKE_BROKER_ID, broker_epoch=rng.choice((epoch, epoch, *_LONGS)), topics=[topic] * rng.randrange(1, 3)
    )


def _directories(tools: StoryTools, epoch: int) -> AssignReplicasToDirsRequest:
    rng = tools.rng
    topic = Topic(
        topic_id=rng.choice((*tools.target.topic_ids, UNKNOWN_ID)),
        partitions=[Partition(partition_index=rng.choice((0, 1, *_INTS)))] * rng.randrange(3),
    )
    directory = Directory(id_=rng.choice((FAKE_DIRECTORY, UNKNOWN_ID, bytes(16), bytes(15) + b"\1")), topics=[topic])
    return AssignReplicasToDirsRequest(
        broker_id=FAKE_BROKER_ID, broker_epoch=rng.choice((epoch, epoch, *_LONGS)), directories=[directory]
    )


def _last(tools: StoryTools, epoch: int) -> Frame:
    message: Any = BrokerHeartbeatRequest(
        broker_id=FAKE_BROKER_ID, broker_epoch=epoch, current_metadata_offset=2**62, want_shut_down=True
    )
    return tools.request(message) if tools.rng.random() < 0.3 else tools.ping()
