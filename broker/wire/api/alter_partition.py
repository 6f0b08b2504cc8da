"""AlterPartition (key 56): a leader proposes its partitions' in-sync replicas to the controller (KIP-497).

Always flexible. Notable versions:
    2  topics by id, no more by name (KIP-841)
    3  the epoch of each broker in the proposed ISR (KIP-903)
"""

from broker.wire.schema import field, request, response, struct
from broker.wire.uuids import ZERO_UUID


@struct
class BrokerState:
    """`broker_epoch` is -1 where the leader does not know it, and it is not checked."""

    broker_id: int = field("int32", "3+", default=0)
    broker_epoch: int = field("int64", "3+", default=-1)


@struct
class PartitionData:
    """`leader_recovery_state`: 1 while the partition recovers from an unclean election (KIP-704)."""

    partition_index: int = field("int32", "0+", default=0)
    leader_epoch: int = field("int32", "0+", default=0)
    new_isr: list[int] = field(["int32"], "0-2", factory=list)
    new_isr_with_epochs: list[BrokerState] = field([BrokerState], "3+", factory=list)
    leader_recovery_state: int = field("int8", "1+", default=0)
    partition_epoch: int = field("int32", "0+", default=0)


@struct
class TopicData:
    topic_id: bytes = field("uuid", "2+", default=ZERO_UUID)
    partitions: list[PartitionData] = field([PartitionData], "0+", factory=list)


@request(key=56, versions="2-3", flexible="0+")
class AlterPartitionRequest:
    broker_id: int = field("int32", "0+", default=0)
    broker_epoch: int = field("int64", "0+", default=-1)
    topics: list[TopicData] = field([TopicData], "0+", factory=list)


@struct
class AlteredPartition:
    """The partition as it is after the change; with an error, nothing but its index and the error."""

    partition_index: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    leader_id: int = field("int32", "0+", default=0)
    leader_epoch: int = field("int32", "0+", default=0)
    isr: list[int] = field(["int32"], "0+", factory=list)
    leader_recovery_state: int = field("int8", "1+", default=0)
    partition_epoch: int = field("int32", "0+", default=0)


@struct
class AlteredTopic:
    topic_id: bytes = field("uuid", "2+", default=ZERO_UUID)
    partitions: list[AlteredPartition] = field([AlteredPartition], "0+", factory=list)


@response(key=56, versions="2-3", flexible="0+")
class AlterPartitionResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    topics: list[AlteredTopic] = field([AlteredTopic], "0+", factory=list)
