"""AlterPartition (key 56): leaders propose the in-sync replicas of their partitions (KIP-497, KIP-841, KIP-903).

Served by controllers only.
"""

from typing import Final

from broker.handlers.response_errors import code_of, error_response
from broker.server.context import ControllerContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work, in_task
from broker.wire.api.alter_partition import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionData,
)
from metadata.controller import AlteredPartition as Outcome
from metadata.controller import IsrChange, IsrMember, TopicIsrChanges
from metadata.protocol import AclOperation

_BROKER_EPOCHS_FROM: Final = 3


def alter_partition(context: ControllerContext, request: AlterPartitionRequest) -> Work[AlterPartitionResponse]:
    topics = [
        TopicIsrChanges(topic.topic_id, [_change(context, partition) for partition in topic.partitions])
        for topic in request.topics
    ]
    altered = yield from in_task(
        context.services.controller.alter_partition(request.broker_id, request.broker_epoch, topics)
    )
    return AlterPartitionResponse(
        topics=[
            AlteredTopic(topic_id=topic.topic_id, partitions=[_altered(outcome) for outcome in topic.partitions])
            for topic in altered
        ]
    )


def _change(context: ControllerContext, partition: PartitionData) -> IsrChange:
    if context.api_version >= _BROKER_EPOCHS_FROM:
        new_isr = [IsrMember(member.broker_id, member.broker_epoch) for member in partition.new_isr_with_epochs]
    else:
        new_isr = [IsrMember(broker_id) for broker_id in partition.new_isr]
    return IsrChange(
        partition_id=partition.partition_index,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        new_isr=new_isr,
        leader_recovery_state=partition.leader_recovery_state,
    )


def _altered(outcome: Outcome) -> AlteredPartition:
    partition = outcome.partition
    if partition is None:
        return AlteredPartition(partition_index=outcome.partition_id, error_code=code_of(outcome.error))
    return AlteredPartition(
        partition_index=outcome.partition_id,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )


# A broker sends the changes of all partitions that it leads in one request.
HANDLER = Handler(
    AlterPartitionRequest,
    alter_partition,
    request_bytes_max=8 * REQUEST_BYTES_MAX,
    refused=error_response(AlterPartitionResponse),
    operation=AclOperation.CLUSTER_ACTION,
    concurrent=True,
)
