"""KIP-966: while a replica that is in sync or eligible survives, no acknowledged record is lost.

A small model of brokers around the controller: logs are lists of records, and brokers act on the metadata that they
have replayed so far. Processes crash and lose their page cache, or shut down cleanly, and replicas are moved to other
brokers. An acknowledged record may be missing in a leader's log only if that leader was elected uncleanly.
"""

from itertools import takewhile

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from metadata.controller import (
    ANY_BROKER_EPOCH,
    ConfigChange,
    IsrChange,
    IsrMember,
    NewTopic,
    Reassignment,
    TopicIsrChanges,
    TopicReassignments,
)
from metadata.controller.alter_partition import AlterPartitionControl
from metadata.controller.reassignment import ReassignmentsControl
from metadata.image import ConfigResource, PartitionImage, TopicImage
from metadata.protocol import ConfigOperation, ConfigResourceType
from metadata.records import LEADER_RECOVERING, NO_LEADER
from tests.support.metadata import Cluster, schema

BROKERS = (1, 2, 3, 4)
REPLICAS = (1, 2, 3)
brokers = st.sampled_from(BROKERS)


@attrs.define
class Process:
    """The process of a broker. `view` is the partition in its metadata.

    If it leads, `caught_up` has the incarnation of each follower and the number of records that it has fetched.
    """

    alive: bool = True
    log: list[int] = attrs.field(factory=list)
    view: PartitionImage | None = None
    caught_up: dict[int, tuple[int, int]] = attrs.field(factory=dict)
    clean_epoch: int = -1


class ReplicatedPartition(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster(len(BROKERS))
        self.isrs = AlterPartitionControl(schema())
        self.reassignments = ReassignmentsControl(schema())
        topic = NewTopic("t", assignments=[(0, REPLICAS)], configs={"min.insync.replicas": "2"})
        self.cluster.decide(self.cluster.topics.create(self.cluster.image, [topic]))
        self.processes = {broker: Process(view=self.partition) for broker in BROKERS}
        self.acknowledged: list[int] = []
        self.next_record = 0
        self.epochs = (0, 0)
        self.unclean_epoch = 0
        self.produce(self.partition.leader)

    @property
    def topic(self) -> TopicImage:
        return self.cluster.image.topics.by_name["t"]

    @property
    def partition(self) -> PartitionImage:
        return self.topic.partitions[0]

    def epoch(self, broker: int) -> int:
        return self.cluster.image.cluster.brokers[broker].broker_epoch

    def hear(self, broker: int) -> None:
        """The broker replays the metadata. A new leader resets the progress of its followers.

        The log is deleted if the broker has no replica any more.
        """
        process = self.processes[broker]
        if process.alive and process.view != self.partition:
            if process.view is None or process.view.leader_epoch != self.partition.leader_epoch:
                process.caught_up = {}
            process.view = self.partition
            if broker not in process.view.replicas:
                process.log = []

    @rule(deaf=st.none() | brokers)
    def metadata_spreads(self, deaf: int | None) -> None:
        for broker in BROKERS:
            if broker != deaf:
                self.hear(broker)

    @rule(broker=brokers)
    def produce(self, broker: int) -> None:
        """Produce with acks=all, which needs min.insync.replicas members in the ISR of the leader's metadata."""
        leader = self.processes[broker]
        view = leader.view
        if view is None or view.leader != broker:
            return
        if len(view.isr) < min(self.min_insync_replicas, len(view.replicas)):
            return
        leader.log.append(self.new_record())
        copied = [self.fetch(follower, broker) for follower in view.isr if follower != broker]
        # A leader that does not know of a later unclean election may acknowledge records that are lost already.
        if all(copied) and view.leader_epoch >= self.unclean_epoch:
            assert leader.log[: len(self.acknowledged)] == self.acknowledged
            self.acknowledged = list(leader.log)

    @rule(broker=brokers)
    def produce_without_waiting(self, broker: int) -> None:
        """Produce with acks=1: only the leader has the record, which may be lost."""
        leader = self.processes[broker]
        if leader.view is not None and leader.view.leader == broker:
            leader.log.append(self.new_record())

    def new_record(self) -> int:
        self.next_record += 1
        return self.next_record

    @rule(lazy=st.none() | brokers)
    def followers_fetch(self, lazy: int | None) -> None:
        for follower in BROKERS:
            view = self.processes[follower].view
            if follower != lazy and view is not None and view.leader not in (NO_LEADER, follower):
                self.fetch(follower, view.leader)

    def fetch(self, follower: int, leader: int) -> bool:
        """Fetch, if both have the same leader epoch. Returns True if the follower has all records of the leader."""
        source, sink = self.processes[leader], self.processes[follower]
        if source.view is None or sink.view is None or source.view.leader != leader:
            return False
        if source.view.leader_epoch != sink.view.leader_epoch:
            return False
        if follower not in source.view.replicas or follower not in sink.view.replicas:
            return False
        sink.log = list(source.log)
        source.caught_up[follower] = (self.epoch(follower), len(source.log))
        return True

    @rule(broker=brokers, wanted=st.sets(brokers))
    def alter_isr(self, broker: int, wanted: set[int]) -> None:
        """A leader adds followers that have caught up to the ISR, or removes others."""
        leader = self.processes[broker]
        view = leader.view
        if view is None or view.leader != broker:
            return
        life = {replica: epoch for replica, (epoch, size) in leader.caught_up.items() if size == len(leader.log)}
        new = [
            IsrMember(replica, self.epoch(broker) if replica == broker else life.get(replica, ANY_BROKER_EPOCH))
            for replica in view.replicas
            if replica == broker or (replica in wanted and (replica in view.isr or replica in life))
        ]
        self.request_isr(broker, view, new)

    @rule(broker=brokers)
    def hand_over(self, broker: int) -> None:
        """A leader with a damaged log leaves the ISR."""
        leader = self.processes[broker]
        view = leader.view
        if view is not None and view.leader == broker:
            life = {replica: epoch for replica, (epoch, _) in leader.caught_up.items()}
            others = [replica for replica in view.isr if replica != broker]
            self.request_isr(broker, view, [IsrMember(each, life.get(each, ANY_BROKER_EPOCH)) for each in others])

    def request_isr(self, broker: int, view: PartitionImage, new: list[IsrMember]) -> None:
        change = IsrChange(
            partition_id=0, leader_epoch=view.leader_epoch, partition_epoch=view.partition_epoch, new_isr=new
        )
        topics = [TopicIsrChanges(self.topic.topic_id, [change])]
        self.cluster.decide(self.isrs.alter(self.cluster.image, broker, self.epoch(broker), topics))

    @rule(replicas=st.none() | st.lists(brokers, min_size=1, max_size=3, unique=True))
    def reassign(self, replicas: list[int] | None) -> None:
        """Start or cancel a reassignment."""
        wanted = Reassignment(0, None if replicas is None else tuple(replicas))
        topics = [TopicReassignments("t", [wanted])]
        self.cluster.decide(self.reassignments.alter(self.cluster.image, topics, allow_factor_change=True))

    @rule(broker=brokers)
    def fall_silent(self, broker: int) -> None:
        """The broker's session expires, whether its process is alive or not."""
        if broker in self.cluster.image.cluster.brokers:
            self.cluster.fence(broker)

    @rule(broker=brokers)
    def beat(self, broker: int) -> None:
        if self.processes[broker].alive:
            self.cluster.heartbeat(broker)

    @rule(broker=brokers, kept=st.sampled_from([0, 1, 2, 1_000]))
    def crash(self, broker: int, kept: int) -> None:
        """The process dies, and its log keeps only the flushed records."""
        process = self.processes[broker]
        if process.alive:
            self.processes[broker] = Process(alive=False, log=process.log[:kept])
            self.cluster.sessions.connection_lost(broker, 0)

    @rule(broker=brokers, waits=st.booleans())
    def shut_down(self, broker: int, waits: bool) -> None:
        """The process shuts down cleanly, with or without waiting for the controller's permission."""
        process = self.processes[broker]
        if process.alive:
            reply = self.cluster.heartbeat(broker, want_shut_down=True)
            if reply.should_shut_down or not waits:
                self.processes[broker] = Process(alive=False, log=process.log, clean_epoch=self.epoch(broker))
                self.cluster.sessions.connection_lost(broker, 0)

    @rule(broker=brokers, gets_ready=st.booleans())
    def start(self, broker: int, gets_ready: bool) -> None:
        process = self.processes[broker]
        if not process.alive:
            self.cluster.register(broker, previous_broker_epoch=process.clean_epoch)
            self.processes[broker] = Process(log=process.log)
            if gets_ready:
                self.cluster.heartbeat(broker)

    @rule(broker=brokers, kept=st.sampled_from([0, 1, 2, 1_000]))
    def crash_and_come_back(self, broker: int, kept: int) -> None:
        self.crash(broker, kept)
        self.start(broker, gets_ready=True)

    @rule(broker=brokers)
    def unregister(self, broker: int) -> None:
        """An operator unregisters a broker that seems to be gone permanently."""
        if not self.processes[broker].alive and broker in self.cluster.image.cluster.brokers:
            self.cluster.decide(self.cluster.brokers.unregister(self.cluster.image, broker))

    @rule(text=st.sampled_from(["1", "2", "3"]))
    def change_min_insync_replicas(self, text: str) -> None:
        self.configure("min.insync.replicas", text)

    @precondition(lambda self: self.partition.leader == NO_LEADER)
    @rule()
    def elect_uncleanly(self) -> None:
        self.configure("unclean.leader.election.enable", "true")
        self.configure("unclean.leader.election.enable", "false")

    def configure(self, name: str, value: str) -> None:
        change = (ConfigResource(ConfigResourceType.TOPIC, "t"), [ConfigChange(name, ConfigOperation.SET, value)])
        assert (
            self.cluster.decide(self.cluster.configs.incremental_alter(self.cluster.image, [change]))[0].error is None
        )
        if name == "min.insync.replicas":  # leaders replay it like any other metadata, before its consequences
            for broker in BROKERS:
                self.hear(broker)

    @property
    def min_insync_replicas(self) -> int:
        return int(self.cluster.image.configs.topic("t")["min.insync.replicas"])

    @invariant()
    def a_leader_has_every_acknowledged_record_unless_elected_uncleanly(self) -> None:
        partition = self.partition
        if partition.leader == NO_LEADER or not self.processes[partition.leader].alive:
            return
        log = self.processes[partition.leader].log
        if partition.leader_recovery_state == LEADER_RECOVERING and partition.leader_epoch > self.unclean_epoch:
            self.unclean_epoch = partition.leader_epoch
            pairs = zip(self.acknowledged, log, strict=False)
            self.acknowledged = [kept for kept, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)]
        assert log[: len(self.acknowledged)] == self.acknowledged

    @invariant()
    def the_partition_is_sound(self) -> None:
        partition, image = self.partition, self.cluster.image
        isr, elr = partition.isr, partition.eligible_leader_replicas
        assert set(isr) | set(elr) | set(partition.last_known_elr) <= set(partition.replicas)
        assert set(partition.adding_replicas) | set(partition.removing_replicas) <= set(partition.replicas)
        assert not set(isr) & set(elr)
        assert all(image.cluster.is_active(replica) for replica in isr)
        assert partition.leader == NO_LEADER or partition.leader in isr
        assert partition.leader != NO_LEADER or not isr
        assert not elr or len(isr) < self.min_insync_replicas
        assert not (partition.leader != NO_LEADER and partition.last_known_elr)

    @invariant()
    def epochs_only_grow(self) -> None:
        epochs = (self.partition.leader_epoch, self.partition.partition_epoch)
        assert all(new >= old for new, old in zip(epochs, self.epochs, strict=True))
        self.epochs = epochs


ReplicatedPartition.TestCase.settings = settings(max_examples=100, stateful_step_count=30)
test_no_acknowledged_record_is_lost_while_one_in_sync_or_eligible_replica_survives = ReplicatedPartition.TestCase
