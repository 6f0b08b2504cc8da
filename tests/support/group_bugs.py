"""Bugs planted into coordinators of groups; see `planted_bugs`."""

from broker.coordinator.group.classic.classic_group import ClassicGroup
from broker.coordinator.group.consumer import consumer_group, reconciliation
from broker.coordinator.runtime.hosted_shard import HostedShard
from broker.coordinator.runtime.runtime import CoordinatorRuntime
from tests.support.planted_bugs import PlantedBug, PlantedBugs

# What is decided may not be appended.
_CHANGED_AT_ONCE = """\
for record in records:
        self.state.replay(record.key, record.value, self.end_offset, now_ms)
    if records:"""

GROUP_BUGS: dict[str, PlantedBug | PlantedBugs] = {
    "groups are answered before it is committed": PlantedBug(
        HostedShard, "_complete_committed", "deferred[0].end_offset <= writer.committed_end and", ""
    ),
    "what is decided has happened": PlantedBug(HostedShard, "_perform", "if records:", _CHANGED_AT_ONCE),
    "whoever coordinated does so for ever": PlantedBugs(
        PlantedBug(
            HostedShard, "is_fenced", "partition.leader_epoch != self.epoch or not partition.leads", "partition is None"
        ),
        PlantedBug(CoordinatorRuntime, "leadership_changed", "self._unload(partition.index)", "pass"),
    ),
    "commits of any generation are taken": PlantedBug(
        ClassicGroup, "validate_offset_commit", "epoch != self.generation", "False"
    ),
    "static members are not fenced": PlantedBug(
        ClassicGroup, "member_error", "return ErrorCode.FENCED_INSTANCE_ID", "return ErrorCode.NONE"
    ),
    "commits of any member epoch are taken": PlantedBug(
        consumer_group.ConsumerGroup, "validate_offset_commit", "_check_epoch(member, epoch)", "pass"
    ),
    "partitions are given before they are given up": PlantedBug(
        reconciliation, "_next", "if owner_of(topic_id, index) in (None, member.member_id)", ""
    ),
}
