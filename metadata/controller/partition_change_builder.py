"""Decides the leader, the ISR and the eligible leader replicas of a partition when one of them changes.

The replicas in the ISR have all acknowledged records. While the ISR is smaller than min.insync.replicas, nothing is
acknowledged. A replica that leaves the ISR then still has all acknowledged records, and becomes an eligible leader
replica (ELR, KIP-966). A broker whose process died without closing its logs may have lost its page cache, so it is
removed from both.
"""

from collections.abc import Callable
from typing import Any

from kraft import lazy_attrs
from metadata.configuration import ConfigSchema, TopicConfigs
from metadata.controller.assignment import Assignment
from metadata.controller.feature_levels import ELIGIBLE_LEADER_REPLICAS_VERSION
from metadata.ids import is_online
from metadata.image import MetadataImage, PartitionImage, TopicImage
from metadata.records import (
    LEADER_RECOVERING,
    NO_LEADER,
    NO_LEADER_RECOVERY_CHANGE,
    PartitionChangeRecord,
)


@lazy_attrs.frozen
class ElectionRules:
    """The rules of one topic's partitions. `unclean` allows leaders that may lack acknowledged records."""

    min_insync_replicas: int
    unclean: bool
    elr_enabled: bool


def elr_in_use(image: MetadataImage) -> bool:
    return image.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) > 0


def election_rules(image: MetadataImage, topic: TopicImage, schema: ConfigSchema) -> ElectionRules:
    """The rules of a topic. min.insync.replicas is limited to the number of replicas: otherwise no record could ever be
    acknowledged."""
    configs = (image.configs.topic(topic.name), image.configs.all_brokers())
    min_insync_replicas = schema.topic_value(TopicConfigs.min_insync_replicas, *configs)
    return ElectionRules(
        min(min_insync_replicas, len(topic.partitions[0].replicas)),
        schema.topic_value(TopicConfigs.unclean_leader_election_enable, *configs),
        elr_in_use(image),
    )


@lazy_attrs.define
class _State:
    """The part of a partition's state that an election changes."""

    assignment: Assignment
    leader: int
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]
    leader_recovery_state: int


@lazy_attrs.frozen(kw_only=True)
class PartitionChangeBuilder:
    """Builds the change of one partition.

    `isr` is the new ISR before an election, and `may_lead` returns True for brokers that can be elected.
    `unclean_shutdown` is a broker that may have lost records. With `prefer_first`, the first replica is elected if
    possible. `assignment` is the new assignment, if the replicas change. Any change completes a reassignment whose
    target replicas are all in sync.
    """

    topic_id: bytes
    partition_id: int
    partition: PartitionImage
    rules: ElectionRules
    may_lead: Callable[[int], bool]
    isr: tuple[int, ...]
    leader_recovery_state: int = NO_LEADER_RECOVERY_CHANGE
    unclean_shutdown: int | None = None
    prefer_first: bool = False
    assignment: Assignment | None = None

    def build(self) -> PartitionChangeRecord | None:
        """Return the change, or None if nothing changes."""
        old = self.partition
        wanted_state = self.leader_recovery_state
        keeps_state = wanted_state == NO_LEADER_RECOVERY_CHANGE
        assignment = (self.assignment or Assignment.of(old)).completed(self.isr)
        isr = tuple(replica for replica in self.isr if replica in assignment.replicas)
        state = _State(
            assignment,
            old.leader,
            isr,
            self._eligible(assignment.replicas, isr),
            tuple(replica for replica in old.last_known_elr if replica in assignment.replicas),
            old.leader_recovery_state if keeps_state else wanted_state,
        )
        self._elect(state)
        if not self.rules.elr_enabled:
            # Without ELR, the last member stays in the ISR: an empty ISR would not name a replica with all records.
            state.isr = state.isr or old.isr
            state.elr = ()
        self._remember_leader(state)
        return self._difference(state)

    def _eligible(self, replicas: tuple[int, ...], isr: tuple[int, ...]) -> tuple[int, ...]:
        """The ELR: replicas that leave an ISR below min.insync.replicas. Empty if the ISR is large enough (KIP-966)."""
        old = self.partition
        if not self.rules.elr_enabled:
            elr = [replica for replica in old.eligible_leader_replicas if replica in replicas]
            return tuple(replica for replica in elr if replica != self.unclean_shutdown)
        if len(isr) >= self.rules.min_insync_replicas:
            return ()
        candidates = (*old.isr, *old.eligible_leader_replicas)
        return tuple(
            replica
            for replica in replicas
            if replica in candidates and replica not in isr and replica != self.unclean_shutdown
        )

    def _elect(self, state: _State) -> None:
        state.leader = leader = self._chosen(state)
        if leader == NO_LEADER or leader in state.isr:
            return
        is_eligible = leader in state.elr
        others = tuple(replica for replica in state.elr if replica != leader)
        # With min.insync.replicas 1, the leader acknowledges records that the other eligible replicas lack.
        alone = self.rules.min_insync_replicas <= 1
        state.isr, state.elr = (leader,), others if is_eligible and not alone else ()
        if not is_eligible:
            state.leader_recovery_state = LEADER_RECOVERING

    def _chosen(self, state: _State) -> int:
        """The next leader. A replica that is neither in sync nor eligible may lack acknowledged records."""
        replicas, adding = state.assignment.replicas, state.assignment.adding
        have_everything = state.isr or state.elr
        candidates = [each for each in (self.partition.leader, *replicas) if each in have_everything]
        if self.prefer_first and replicas[0] in have_everything:
            candidates.insert(0, replicas[0])
        if not have_everything:
            # No replica certainly has all records: the last leader has the most (KIP-966, "balanced" recovery).
            candidates += state.last_known_elr
        if self.rules.unclean:  # replicas that are being added come last, as they may have no records at all
            candidates += sorted(replicas, key=lambda replica: replica in adding)
        return next(filter(self.may_lead, candidates), NO_LEADER)

    def _remember_leader(self, state: _State) -> None:
        """Keep the last leader of a partition without an ISR as the only last known ELR."""
        old = self.partition
        if state.leader != NO_LEADER or not self.rules.elr_enabled:
            state.last_known_elr = ()
        elif not state.isr and old.leader in state.assignment.replicas:
            state.last_known_elr = (old.leader,)

    def _difference(self, state: _State) -> PartitionChangeRecord | None:
        old = self.partition
        changes = self._difference_of_replicas(state.assignment)
        if state.isr != old.isr:
            changes["isr"] = state.isr
        if state.leader != old.leader:
            changes["leader"] = state.leader
        if state.leader_recovery_state != old.leader_recovery_state:
            changes["leader_recovery_state"] = state.leader_recovery_state
        if state.elr != old.eligible_leader_replicas:
            changes["eligible_leader_replicas"] = state.elr
        if state.last_known_elr != old.last_known_elr:
            changes["last_known_elr"] = state.last_known_elr
        if not changes:
            return None
        return PartitionChangeRecord(topic_id=self.topic_id, partition_id=self.partition_id, **changes)

    def _difference_of_replicas(self, assignment: Assignment) -> dict[str, Any]:
        """The changes of the replicas. If a replica is removed, the leader epoch is raised, which fences it."""
        old, changes = self.partition, dict[str, Any]()
        if assignment.replicas != old.replicas:
            changes["replicas"] = assignment.replicas
        if assignment.directories != old.directories:
            changes["directories"] = assignment.directories
        if assignment.adding != old.adding_replicas:
            changes["adding_replicas"] = assignment.adding
        if assignment.removing != old.removing_replicas:
            changes["removing_replicas"] = assignment.removing
        if any(replica not in assignment.replicas for replica in old.replicas):
            changes["leader"] = old.leader
        return changes


def acceptable_leaders(
    image: MetadataImage, partition: PartitionImage, *, gone: int | None = None, came: int | None = None
) -> Callable[[int], bool]:
    """Return the predicate for brokers that can lead: active, with the partition's log directory online (KIP-858).

    `gone` and `came` are brokers that are about to become inactive and active; `image` is the state before.
    """

    def may_lead(broker_id: int) -> bool:
        broker = image.cluster.brokers.get(broker_id)
        if broker is None or broker_id == gone or not (broker.is_active or broker_id == came):
            return False
        if broker_id not in partition.replicas or not partition.directories:
            return True
        return is_online(partition.directories[partition.replicas.index(broker_id)], broker.log_dirs)

    return may_lead
