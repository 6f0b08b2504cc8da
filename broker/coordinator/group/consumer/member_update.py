"""The changes that one heartbeat or JoinGroup makes to a consumer group.

They are the member's attributes and subscription, a new group epoch and target assignment if something has changed, and
the member's next step of reconciliation.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

import attrs

from broker.coordinator.group.assignors import Assignor, MemberSpec, assign_ranges, assign_uniformly
from broker.coordinator.group.config import ConsumerGroupConfig
from broker.coordinator.group.consumer.consumer_group import ConsumerGroup, members_with
from broker.coordinator.group.consumer.member import ConsumerMember, ResolvedRegex
from broker.coordinator.group.consumer.reconciliation import Target, reconcile
from broker.coordinator.group.consumer.records import (
    assignment_epoch_record,
    assignment_record,
    epoch_record,
    member_record,
    regex_record,
    target_record,
)
from broker.coordinator.group.consumer.subscriptions import (
    Regexes,
    check_regex,
    metadata_hash,
    need_refresh,
    resolve,
    topic_ids,
)
from broker.coordinator.group.consumer.topic_matching import TopicMatcher
from broker.coordinator.group.partition_sets import PartitionSets
from broker.coordinator.runtime.decision import CoordinatorRecord
from kraft import lazy_attrs
from metadata.image import MetadataImage

# The assignors by the names that clients and configs use.
ASSIGNORS: Final[dict[str, Assignor]] = {"uniform": assign_uniformly, "range": assign_ranges}


@lazy_attrs.frozen(kw_only=True)
class DecisionContext:
    """The inputs of a decision besides the group. `topics_version` is the version that created the newest topic.

    `topic_filter` is true for the topics that the client may describe; None if it may describe all.
    """

    image: MetadataImage
    config: ConsumerGroupConfig
    topics_version: int
    now_ms: int
    matcher: TopicMatcher
    topic_filter: Callable[[str], bool] | None = None


@lazy_attrs.define
class MemberUpdate:
    """Computes the records of one update.

    `former` is the member before the update; a new member has no epoch and no subscription. `replaced` is the static
    member that it replaces, whose tombstones are in `records` already. `records` are to be appended in this order.
    `refreshed_topics` is true if the update looked at the state of the topics; `changes_epoch` if the group's epoch
    increases. `is_unresolved` is true if topics of regular expressions are still being looked up.
    """

    group: ConsumerGroup
    context: DecisionContext
    former: ConsumerMember
    replaced: ConsumerMember | None = None
    records: list[CoordinatorRecord] = attrs.Factory(list)
    refreshed_topics: bool = False
    changes_epoch: bool = False
    is_unresolved: bool = False

    def run(self, member: ConsumerMember, owned: PartitionSets | None) -> ConsumerMember:
        """Returns the member after the update. `member` has the changes of the request; `owned` are the partitions it
        reports, if any.

        Raises KafkaError.
        """
        if member != self.former:
            self.records.append(member_record(self.group.group_id, member))
        regexes, regexes_have_changed = self._regexes(member)
        target = self._target(member, regexes, regexes_have_changed)
        new_topic_ids = self._new_topic_ids(member, regexes)
        reconciled = reconcile(member, target, self._owner_of, owned, new_topic_ids)
        if reconciled != member:
            self.records.append(assignment_record(self.group.group_id, reconciled))
        return reconciled

    def _has_new_subscription(self, member: ConsumerMember) -> bool:
        former = self.former
        return (member.topic_names, member.topic_regex) != (former.topic_names, former.topic_regex)

    def _new_topic_ids(self, member: ConsumerMember, regexes: Mapping[str, ResolvedRegex]) -> Collection[bytes] | None:
        """The existing topics of the member's new subscription; None if its subscription is the same as before."""
        if not self._has_new_subscription(member):
            return None
        return topic_ids([member], regexes, self.context.image)[member.member_id]

    def _target(
        self, member: ConsumerMember, regexes: Mapping[str, ResolvedRegex], regexes_have_changed: bool
    ) -> Target:
        group, context = self.group, self.context
        has_changed = not group.epoch or regexes_have_changed or self._has_new_subscription(member)
        epoch = group.epoch
        if has_changed or context.now_ms >= group.refresh_at_ms:
            self.refreshed_topics = True
            topics_hash = metadata_hash(self._members(member).values(), regexes, context.image)
            if has_changed or topics_hash != group.metadata_hash:
                epoch += 1
                self.changes_epoch = True
                self.records.append(epoch_record(group.group_id, epoch, topics_hash))
        if epoch <= group.assignment_epoch:
            place = member.member_id if self.replaced is None else self.replaced.member_id
            return Target(group.assignment_epoch, group.target_of(place))
        return self._new_target(member, epoch, regexes)

    def _new_target(self, member: ConsumerMember, epoch: int, regexes: Mapping[str, ResolvedRegex]) -> Target:
        members = self._members(member)
        assignors = self.context.config.assignors
        assignor = self.group.preferred_assignor(members.values(), assignors[0])
        successors = {} if self.replaced is None else {member.member_id: self.replaced.member_id}
        targets = _new_targets(
            self.group,
            epoch,
            members.values(),
            regexes,
            self.context.image,
            assignor if assignor in assignors else assignors[0],
            successors,
        )
        self.records += targets.records
        return Target(epoch, targets.by_member[member.member_id])

    def _members(self, member: ConsumerMember) -> Mapping[str, ConsumerMember]:
        gone = [] if self.replaced is None else [self.replaced.member_id]
        return members_with(self.group, member, without=gone)

    def _regexes(self, member: ConsumerMember) -> tuple[Mapping[str, ResolvedRegex], bool]:
        """The regular expressions of the members, and whether their topics have changed. Raises KafkaError."""
        known, context = self.group.regexes, self.context
        wanted, regex = list(known), member.topic_regex
        is_unknown = regex is not None and regex not in known
        if regex is not None and is_unknown and regex != self.former.topic_regex:
            check_regex(regex, context.matcher)
        if is_unknown or regex != self.former.topic_regex:
            of_members = (each.topic_regex for each in self._members(member).values())
            wanted = list(dict.fromkeys(regex for regex in of_members if regex is not None))
        regexes: Mapping[str, ResolvedRegex] = {regex: known[regex] for regex in wanted if regex in known}
        if need_refresh(
            wanted, known, context.topics_version, context.config.regex_refresh_interval_ms, context.now_ms
        ):
            regexes = resolve(wanted, known, context.image, context.now_ms, context.matcher, context.topic_filter)
            self.is_unresolved = context.matcher.is_busy
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


@lazy_attrs.frozen
class _NewTargets:
    """The target assignment of all members, and the records of its changes."""

    by_member: Mapping[str, PartitionSets]
    records: list[CoordinatorRecord]


def _new_targets(
    group: ConsumerGroup,
    epoch: int,
    members: Iterable[ConsumerMember],
    regexes: Regexes,
    image: MetadataImage,
    assignor: str,
    successors: Mapping[str, str],
) -> _NewTargets:
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
    return _NewTargets(targets, [*records, assignment_epoch_record(group.group_id, epoch)])
