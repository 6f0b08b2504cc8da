"""A member of a consumer group."""

from enum import IntEnum
from typing import Final

import attrs

from broker.coordinator.group.consumer.assignment_epochs import (
    FIRST_EPOCH,
    NO_EPOCHS,
    AssignmentEpochs,
    as_records,
    assigned_at,
    from_records,
)
from broker.coordinator.group.partition_sets import NO_PARTITIONS, PartitionSets, partition_sets
from broker.coordinator.group.record_formats import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
)
from kraft import lazy_attrs

# Epochs with a special meaning in heartbeats (KIP-848).
JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVE_FOR_A_WHILE_EPOCH: Final = -2


class MemberState(IntEnum):
    """How far a member has been reconciled with its target assignment; the numbers are those of Kafka's records.

    STABLE has the target assignment of its epoch. UNREVOKED_PARTITIONS has to revoke partitions before its epoch
    increases. UNRELEASED_PARTITIONS waits for partitions that other members have yet to revoke.
    """

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


@lazy_attrs.frozen
class ResolvedRegex:
    """The topics that a regular expression matches, in ascending order, at a version of the metadata and a time."""

    topic_names: tuple[str, ...]
    version: int
    timestamp_ms: int


@lazy_attrs.frozen
class ClassicProtocolMember:
    """Further attributes of a member that uses the classic protocol. `protocols` are names and metadata."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@lazy_attrs.frozen(kw_only=True)
class ConsumerMember:
    """A member as the records describe it.

    Heartbeats carry `member_epoch`. A heartbeat with `previous_member_epoch` is accepted as well, since the response
    with the new epoch may have been lost.

    The member may use the `assigned` partitions, and has to revoke those `pending_revocation`. It owns both until it
    reports that they are revoked, and `assignment_epochs` are the epochs of both. `topic_names` are in ascending order.
    `topic_regex` is None or not empty. `classic` is None for a member of the consumer protocol.
    """

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topic_names: tuple[str, ...] = ()
    topic_regex: str | None = None
    server_assignor: str | None = None
    assigned: PartitionSets = NO_PARTITIONS
    pending_revocation: PartitionSets = NO_PARTITIONS
    assignment_epochs: AssignmentEpochs = NO_EPOCHS
    classic: ClassicProtocolMember | None = None

    @property
    def is_classic(self) -> bool:
        return self.classic is not None

    @property
    def is_away(self) -> bool:
        """True for a static member that has left for a while."""
        return self.member_epoch == LEAVE_FOR_A_WHILE_EPOCH

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch

    def at_epoch(self, epoch: int) -> "ConsumerMember":
        """The member at this epoch; its present epoch becomes the previous one."""
        return attrs.evolve(self, member_epoch=epoch, previous_member_epoch=self.member_epoch)

    def away(self) -> "ConsumerMember":
        """The static member after it has left for a while. It keeps its assigned partitions until it is back or its
        session expires. Its next incarnation may commit their offsets at any epoch of its own.
        """
        return attrs.evolve(
            self,
            member_epoch=LEAVE_FOR_A_WHILE_EPOCH,
            pending_revocation=NO_PARTITIONS,
            assignment_epochs=assigned_at(FIRST_EPOCH, self.assigned),
        )

    def assignment_epoch(self, topic_id: bytes, partition: int) -> int | None:
        """The epoch at which the partition was assigned to the member (KIP-1251); None if it does not own it."""
        return self.assignment_epochs.get(topic_id, {}).get(partition)

    # Records

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> "ConsumerMember":
        return attrs.evolve(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            topic_names=tuple(sorted(value.subscribed_topic_names)),
            topic_regex=value.subscribed_topic_regex or None,
            server_assignor=value.server_assignor,
            classic=_classic(value.classic_member_metadata),
        )

    def metadata_value(self) -> ConsumerGroupMemberMetadataValue:
        classic = self.classic
        return ConsumerGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            subscribed_topic_names=list(self.topic_names),
            subscribed_topic_regex=self.topic_regex,
            server_assignor=self.server_assignor,
            classic_member_metadata=None
            if classic is None
            else ClassicMemberMetadata(
                session_timeout_ms=classic.session_timeout_ms,
                supported_protocols=[
                    ClassicProtocol(name=name, metadata=metadata) for name, metadata in classic.protocols
                ],
            ),
        )

    def with_assignment(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> "ConsumerMember":
        known = value.state in MemberState.__members__.values()
        owned = [*value.partitions_pending_revocation, *value.assigned_partitions]
        return attrs.evolve(
            self,
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=MemberState(value.state) if known else MemberState.UNKNOWN,
            assigned=partition_sets(value.assigned_partitions),
            pending_revocation=partition_sets(value.partitions_pending_revocation),
            assignment_epochs=from_records(owned, value.member_epoch),
        )

    def assignment_value(self) -> ConsumerGroupCurrentMemberAssignmentValue:
        return ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=self.member_epoch,
            previous_member_epoch=self.previous_member_epoch,
            state=self.state,
            assigned_partitions=as_records(self.assigned, self.assignment_epochs),
            partitions_pending_revocation=as_records(self.pending_revocation, self.assignment_epochs),
        )


def _classic(value: ClassicMemberMetadata | None) -> ClassicProtocolMember | None:
    if value is None:
        return None
    protocols = tuple((protocol.name, bytes(protocol.metadata)) for protocol in value.supported_protocols)
    return ClassicProtocolMember(value.session_timeout_ms, protocols)
