"""Who leads a partition, and who is in sync, when brokers come, go or fall behind.

The ISR are the replicas that have everything that was ever acknowledged. Once it has fewer members than the topic's
min.insync.replicas nothing more is acknowledged, so whoever leaves it then still has everything: these are the eligible
leader replicas (ELR, KIP-966). A broker whose process died without closing its logs may have lost what only its page
cache held, and loses its place in both.
"""

from collections.abc import Callable
from typing import Any

import attrs

from metadata.configuration import ConfigSchema
from metadata.controller.config import ELIGIBLE_LEADER_REPLICAS_VERSION
from metadata.ids import MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY
from metadata.image import MetadataImage, PartitionImage, TopicImage
from metadata.records import (
    LEADER_RECOVERING,
    NO_LEADER,
    NO_LEADER_RECOVERY_CHANGE,
    PartitionChangeRecord,
)


@attrs.frozen
class ElectionRules:
    """What holds for the partitions of one topic. `unclean` allows a leader that may lack acknowledged records."""

    min_insync_replicas: int
    unclean: bool
    elr_enabled: bool


def elr_in_use(image: MetadataImage) -> bool:
    return image.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) > 0


def election_rules(image: MetadataImage, topic: TopicImage, schema: ConfigSchema) -> ElectionRules:
    """min.insync.replicas counts for as many as there are replicas, or nothing could ever be acknowledged."""
    configs = (image.configs.topic(topic.name), image.configs.all_brokers())
    min_insync_replicas = schema.topic_value("min.insync.replicas", *configs)
    assert isinstance(min_insync_replicas, int), "min.insync.replicas is a number"
    return ElectionRules(
        min(min_insync_replicas, len(topic.partitions[0].replicas)),
        schema.topic_value("unclean.leader.election.enable", *configs) is True,
        elr_in_use(image),
    )


@attrs.define
class _State:
    """Of a partition, what an election changes."""

    leader: int
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]
    leader_recovery_state: int


@attrs.frozen(kw_only=True)
class PartitionElection:
    """One partition in which something happens; `decide` says what changes.

    `isr` is what it is going to be before anybody is elected, `may_lead` tells who is there to lead, and
    `unclean_shutdown` names a broker whose process may have lost records. With `prefer_first` the first replica is to
    lead if it can.
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

    def decide(self) -> PartitionChangeRecord | None:
        """The change, or None where all stays as it is."""
        old = self.partition
        wanted_state = self.leader_recovery_state
        keeps_state = wanted_state == NO_LEADER_RECOVERY_CHANGE
        state = _State(
            old.leader,
            self.isr,
            self._eligible(),
            old.last_known_elr,
            old.leader_recovery_state if keeps_state else wanted_state,
        )
        self._elect(state)
        if not self.rules.elr_enabled:
            # Without ELR an empty ISR would not tell any more who has the records: its last member stays.
            state.isr = state.isr or old.isr
            state.elr = ()
        self._remember_leader(state)
        return self._difference(state)

    def _eligible(self) -> tuple[int, ...]:
        """KIP-966: below min.insync.replicas, whoever leaves the ISR becomes eligible; at it again, nobody is."""
        old = self.partition
        if not self.rules.elr_enabled:
            return tuple(replica for replica in old.eligible_leader_replicas if replica != self.unclean_shutdown)
        if len(self.isr) >= self.rules.min_insync_replicas:
            return ()
        candidates = (*old.isr, *old.eligible_leader_replicas)
        return tuple(
            replica
            for replica in old.replicas
            if replica in candidates and replica not in self.isr and replica != self.unclean_shutdown
        )

    def _elect(self, state: _State) -> None:
        state.leader = leader = self._chosen(state)
        if leader == NO_LEADER or leader in state.isr:
            return
        is_eligible = leader in state.elr
        others = tuple(replica for replica in state.elr if replica != leader)
        # What a leader acknowledges alone from now on, the others do not have.
        alone = self.rules.min_insync_replicas <= 1
        state.isr, state.elr = (leader,), others if is_eligible and not alone else ()
        if not is_eligible:
            state.leader_recovery_state = LEADER_RECOVERING

    def _chosen(self, state: _State) -> int:
        """Who leads from now on. One that is neither in sync nor eligible may lack acknowledged records."""
        replicas = self.partition.replicas
        have_everything = state.isr or state.elr
        candidates = [each for each in (self.partition.leader, *replicas) if each in have_everything]
        if self.prefer_first and replicas[0] in have_everything:
            candidates.insert(0, replicas[0])
        if not have_everything:
            # Nobody is certain to have everything: the last leader has the most (KIP-966, "balanced" recovery).
            candidates += self.partition.last_known_elr
        if self.rules.unclean:
            candidates += replicas
        return next(filter(self.may_lead, candidates), NO_LEADER)

    def _remember_leader(self, state: _State) -> None:
        """The last known ELR is the last leader of a partition that has nobody in sync, and nothing else."""
        old = self.partition
        if state.leader != NO_LEADER or not self.rules.elr_enabled:
            state.last_known_elr = ()
        elif not state.isr and old.leader != NO_LEADER:
            state.last_known_elr = (old.leader,)

    def _difference(self, state: _State) -> PartitionChangeRecord | None:
        old = self.partition
        changes: dict[str, Any] = {}
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


def acceptable_leaders(
    image: MetadataImage, partition: PartitionImage, *, gone: int | None = None, came: int | None = None
) -> Callable[[int], bool]:
    """Who may lead: active brokers whose log directory with the partition is online (KIP-858).

    `gone` and `came` are brokers whose registration is about to change, and `image` does not show it yet.
    """

    def may_lead(broker_id: int) -> bool:
        broker = image.cluster.brokers.get(broker_id)
        if broker is None or broker_id == gone or not (broker.is_active or broker_id == came):
            return False
        if broker_id not in partition.replicas or not partition.directories:
            return True
        directory = partition.directories[partition.replicas.index(broker_id)]
        return directory in broker.log_dirs or directory in (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY)

    return may_lead
