"""What the word of one member makes of its group: who the member is, what the group is subscribed to, a new epoch and
its target assignment where something has changed, and the member's next step to what it is to have."""

from collections.abc import Mapping

import attrs

from broker.coordinator.group.config import ConsumerGroupConfig
from broker.coordinator.group.consumer.consumer_group import ConsumerGroup, members_with
from broker.coordinator.group.consumer.member import ConsumerMember, ResolvedRegex
from broker.coordinator.group.consumer.reconciliation import Target, reconcile
from broker.coordinator.group.consumer.records import (
    assignment_record,
    epoch_record,
    member_record,
    regex_record,
)
from broker.coordinator.group.consumer.subscriptions import (
    check_regex,
    metadata_hash,
    need_refresh,
    resolve,
)
from broker.coordinator.group.consumer.targets import new_targets
from broker.coordinator.group.consumer.topic_matching import TopicMatcher
from broker.coordinator.group.partition_sets import PartitionSets
from broker.coordinator.runtime.decision import CoordinatorRecord
from metadata.image import MetadataImage


@attrs.frozen(kw_only=True)
class Surroundings:
    """What a decision rests on besides the group. `topics_version` is that of the image in which topics came last."""

    image: MetadataImage
    config: ConsumerGroupConfig
    topics_version: int
    now_ms: int
    matcher: TopicMatcher


@attrs.define
class MemberUpdate:
    """`former` is the member as the group has it; one that is not there yet has no epoch and no subscription.

    `replaced` is the member whose place it takes, a static one; its records are gone by then.
    `records` are to be written, in this order. `looked_at_topics` says that the group knows its topics' state now, and
    `moves_epoch` that it is at another epoch. `is_unresolved` says that topics of expressions are still looked for.
    """

    group: ConsumerGroup
    around: Surroundings
    former: ConsumerMember
    replaced: ConsumerMember | None = None
    records: list[CoordinatorRecord] = attrs.Factory(list)
    looked_at_topics: bool = False
    moves_epoch: bool = False
    is_unresolved: bool = False

    def run(self, member: ConsumerMember, owned: PartitionSets | None) -> ConsumerMember:
        """The member as it is then. `member` is what it said; `owned` what it says to have, if it does.

        Raises CoordinatorError.
        """
        if member != self.former:
            self.records.append(member_record(self.group.group_id, member))
        target = self._target(member)
        reconciled = reconcile(member, target, self._owner_of, owned)
        if reconciled != member:
            self.records.append(assignment_record(self.group.group_id, reconciled))
        return reconciled

    def _target(self, member: ConsumerMember) -> Target:
        group, around = self.group, self.around
        has_changed = not group.epoch or member.topic_names != self.former.topic_names
        regexes, regexes_have_changed = self._regexes(member)
        has_changed = has_changed or regexes_have_changed or member.topic_regex != self.former.topic_regex
        epoch = group.epoch
        if has_changed or around.now_ms >= group.refresh_at_ms:
            self.looked_at_topics = True
            topics_hash = metadata_hash(self._members(member).values(), regexes, around.image)
            if has_changed or topics_hash != group.metadata_hash:
                epoch += 1
                self.moves_epoch = True
                self.records.append(epoch_record(group.group_id, epoch, topics_hash))
        if epoch <= group.assignment_epoch:
            place = member.member_id if self.replaced is None else self.replaced.member_id
            return Target(group.assignment_epoch, group.target_of(place))
        return self._new_target(member, epoch, regexes)

    def _new_target(self, member: ConsumerMember, epoch: int, regexes: Mapping[str, ResolvedRegex]) -> Target:
        members = self._members(member)
        assignors = self.around.config.assignors
        assignor = self.group.preferred_assignor(members.values(), assignors[0])
        successors = {} if self.replaced is None else {member.member_id: self.replaced.member_id}
        targets = new_targets(
            self.group,
            epoch,
            members.values(),
            regexes,
            self.around.image,
            assignor if assignor in assignors else assignors[0],
            successors,
        )
        self.records += targets.records
        return Target(epoch, targets.by_member[member.member_id])

    def _members(self, member: ConsumerMember) -> Mapping[str, ConsumerMember]:
        gone = [] if self.replaced is None else [self.replaced.member_id]
        return members_with(self.group, member, without=gone)

    def _regexes(self, member: ConsumerMember) -> tuple[Mapping[str, ResolvedRegex], bool]:
        """Those that members have, and whether they mean other topics than before. Raises CoordinatorError."""
        known, around = self.group.regexes, self.around
        wanted, regex = list(known), member.topic_regex
        is_unknown = regex is not None and regex not in known
        if regex is not None and is_unknown and regex != self.former.topic_regex:
            check_regex(regex, around.matcher)
        if is_unknown or regex != self.former.topic_regex:
            of_members = (each.topic_regex for each in self._members(member).values())
            wanted = list(dict.fromkeys(regex for regex in of_members if regex is not None))
        regexes: Mapping[str, ResolvedRegex] = {regex: known[regex] for regex in wanted if regex in known}
        if need_refresh(wanted, known, around.topics_version, around.config.regex_refresh_interval_ms, around.now_ms):
            regexes = resolve(wanted, known, around.image, around.now_ms, around.matcher)
            self.is_unresolved = around.matcher.is_busy
        for regex in dict.fromkeys([*known, *regexes]):
            if known.get(regex) != regexes.get(regex):
                self.records.append(regex_record(self.group.group_id, regex, regexes.get(regex)))
        return regexes, _topics(regexes) != _topics(known)

    def _owner_of(self, topic_id: bytes, partition: int) -> str | None:
        owner = self.group.owner_of(topic_id, partition)
        if self.replaced is not None and owner == self.replaced.member_id:
            return self.former.member_id
        return owner


def _topics(regexes: Mapping[str, ResolvedRegex]) -> dict[str, tuple[str, ...]]:
    return {regex: resolved.topic_names for regex, resolved in regexes.items()}
