"""TxnOffsetCommit (key 28): commit offsets of a group as part of a transaction (KIP-98).

Flexible from 3. Notable versions:
    2  the leader epoch of each offset (KIP-320)
    3  the group's generation and the member, so that a zombie is fenced (KIP-447)
    4  may answer TRANSACTION_ABORTABLE (KIP-890)
    5  adds the offsets to the transaction by itself, if transaction.version is 2 (KIP-890)
    6  topic ids in place of names; may answer GROUP_ID_NOT_FOUND, STALE_MEMBER_EPOCH and UNKNOWN_TOPIC_ID (KIP-1319)
"""

from broker.wire.schema import field, request, response, struct
from broker.wire.uuids import ZERO_UUID


@struct
class TxnOffsetCommitRequestPartition:
    partition_index: int = field("int32", "0+", default=0)
    committed_offset: int = field("int64", "0+", default=0)
    committed_leader_epoch: int = field("int32", "2+", default=-1)
    committed_metadata: str | None = field("string", "0+", default="", nullable="0+")


@struct
class TxnOffsetCommitRequestTopic:
    name: str = field("string", "0-5", default="")
    topic_id: bytes = field("uuid", "6+", default=ZERO_UUID)
    partitions: list[TxnOffsetCommitRequestPartition] = field([TxnOffsetCommitRequestPartition], "0+", factory=list)


@request(key=28, versions="0-6", flexible="3+")
class TxnOffsetCommitRequest:
    transactional_id: str = field("string", "0+", default="")
    group_id: str = field("string", "0+", default="")
    producer_id: int = field("int64", "0+", default=0)
    producer_epoch: int = field("int16", "0+", default=0)
    generation_id_or_member_epoch: int = field("int32", "3+", default=-1)
    member_id: str = field("string", "3+", default="")
    group_instance_id: str | None = field("string", "3+", default=None, nullable="3+")
    topics: list[TxnOffsetCommitRequestTopic] = field([TxnOffsetCommitRequestTopic], "0+", factory=list)


@struct
class TxnOffsetCommitResponsePartition:
    partition_index: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)


@struct
class TxnOffsetCommitResponseTopic:
    name: str = field("string", "0-5", default="")
    topic_id: bytes = field("uuid", "6+", default=ZERO_UUID)
    partitions: list[TxnOffsetCommitResponsePartition] = field([TxnOffsetCommitResponsePartition], "0+", factory=list)


@response(key=28, versions="0-6", flexible="3+")
class TxnOffsetCommitResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    topics: list[TxnOffsetCommitResponseTopic] = field([TxnOffsetCommitResponseTopic], "0+", factory=list)
