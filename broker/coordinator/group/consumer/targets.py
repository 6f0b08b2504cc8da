"""Computes the target assignment of a group epoch."""

from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from broker.coordinator.group.assignors import Assignor, MemberSpec, assign_ranges, assign_uniformly
from broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from broker.coordinator.group.consumer.member import ConsumerMember
from broker.coordinator.group.consumer.records import assignment_epoch_record, target_record
from broker.coordinator.group.consumer.subscriptions import Regexes, topic_ids
from broker.coordinator.group.partition_sets import PartitionSets
from broker.coordinator.runtime.decision import CoordinatorRecord
from metadata.image import MetadataImage

# The assignors by the names that clients and configs use.
ASSIGNORS: Final[dict[str, Assignor]] = {"uniform": assign_uniformly, "range": assign_ranges}


@attrs.frozen
class NewTargets:
    """The target assignment of all members, and the records of its changes."""

    by_member: Mapping[str, PartitionSets]
    records: list[CoordinatorRecord]


def new_targets(
    group: ConsumerGroup,
    epoch: int,
    members: Iterable[ConsumerMember],
    regexes: Regexes,
    image: MetadataImage,
    assignor: str,
    successors: Mapping[str, str],
) -> NewTargets:
    """Computes the target assignment of group epoch `epoch`, which has these members.

    `successors` maps the member ids of new incarnations of static members to the ids of those they replace.
    """
    in_order = sorted(members, key=lambda member: member.member_id)
    ids = topic_ids(in_order, regexes, image)
    counts = {
        topic_id: len(image.topics.by_id[topic_id].partitions)
        for topic_id in dict.fromkeys(topic_id for each in ids.values() for topic_id in each)
    }
    specs = {
        member.member_id: MemberSpec(
            ids[member.member_id],
            member.instance_id,
            group.target_of(successors.get(member.member_id, member.member_id)),
        )
        for member in in_order
    }
    targets = ASSIGNORS[assignor](specs, counts)
    records = [
        target_record(group.group_id, member_id, target)
        for member_id, target in targets.items()
        if group.targets.get(member_id) != target
    ]
    return NewTargets(targets, [*records, assignment_epoch_record(group.group_id, epoch)])
