"""The quorum on every node, and the cluster's metadata on controllers."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from broker.metrics.catalogue import controller
from broker.metrics.metric import Family, Sample
from kraft import lazy_attrs
from kraft.core.transitions import Role
from kraft.description import SILENT_MS, QuorumDescription
from kraft.raft_node import RaftNode
from metadata.image import MetadataDelta, MetadataImage
from metadata.records import LEADER_RECOVERING, NO_LEADER

_STEP_PARTITIONS: Final = 64


class QuorumCollector:
    """Reads the state of this node in the quorum."""

    def __init__(self, quorum: RaftNode) -> None:
        self._quorum = quorum

    def collect(self) -> Iterable[Family]:
        core = self._quorum.core
        yield controller.RAFT_STATE, [Sample((role.value,), int(role is core.role)) for role in Role]
        leader_id = core.current_leader.leader_id
        yield controller.RAFT_LEADER.single(-1 if leader_id is None else leader_id)
        yield controller.RAFT_EPOCH.single(core.epoch)
        yield controller.RAFT_VOTERS.single(len(core.voters.voters))
        yield controller.RAFT_SILENT_VOTERS, _silent_voters(self._quorum.describe())
        yield controller.RAFT_HIGH_WATERMARK.single(core.high_watermark)
        yield controller.RAFT_LOG_END.single(self._quorum.end_offset)


def _silent_voters(quorum: QuorumDescription) -> Iterable[Sample]:
    """Only the leader knows."""
    if quorum.voter_states:
        now_ms = max(voter.last_fetch_ms for voter in quorum.voter_states)  # this node's own
        silent = [voter for voter in quorum.voter_states if voter.last_fetch_ms < now_ms - SILENT_MS]
        yield Sample((), len(silent))


@lazy_attrs.define
class Elections:
    """Counts the elections of leaders; a metadata publisher. `unclean` ones are counted in both numbers."""

    total: int = 0
    unclean: int = 0

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """See `MetadataLoader`. Visits the changed partitions."""
        for topic in delta.topics.changed.values():
            if topic.base is None:
                continue
            for index, after in topic.partitions.items():
                before = topic.base.partitions.get(index)
                if before is None or after.leader in (before.leader, NO_LEADER):
                    continue
                self.total += 1
                # As in Kafka: only an unclean election makes a leader recover (KIP-704).
                self.unclean += LEADER_RECOVERING == after.leader_recovery_state != before.leader_recovery_state


@lazy_attrs.define
class _Partitions:
    """The counts of a scrape."""

    offline: int = 0
    imbalanced: int = 0


class ControllerCollector:
    """Reads the metadata that this controller has applied. Images do not change while they are read."""

    def __init__(self, image: Callable[[], MetadataImage], is_active: Callable[[], bool], elections: Elections) -> None:
        self._image = image
        self._is_active = is_active
        self._elections = elections

    def collect(self) -> Iterable[Family]:
        image = self._image()
        yield controller.ACTIVE_CONTROLLER.single(int(self._is_active()))
        fenced = sum(broker.fenced for broker in image.cluster.brokers.values())
        yield controller.ACTIVE_BROKERS.single(len(image.cluster.brokers) - fenced)
        yield controller.FENCED_BROKERS.single(fenced)
        yield controller.TOPIC_COUNT.single(len(image.topics.by_id))
        found = _Partitions()
        yield controller.GLOBAL_PARTITIONS, _count_partitions(image, found)
        yield controller.OFFLINE_PARTITIONS.single(found.offline)
        yield controller.PREFERRED_IMBALANCE.single(found.imbalanced)
        yield controller.APPLIED_OFFSET.single(image.offset)
        yield controller.LEADER_ELECTIONS.single(self._elections.total)
        yield controller.UNCLEAN_ELECTIONS.single(self._elections.unclean)


def _count_partitions(image: MetadataImage, found: _Partitions) -> Iterator[Sample | None]:
    """Count the partitions in `found`, and return their number."""
    count = 0
    for topic in image.topics.by_id.values():
        for partition in topic.partitions.values():
            count += 1
            found.offline += partition.leader == NO_LEADER
            found.imbalanced += partition.leader != partition.replicas[0]
            if not count % _STEP_PARTITIONS:
                yield None
    yield Sample((), count)
