"""Creates and removes the partition replicas of this broker, and gives them their roles, as the metadata says."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import trio

from broker.config.effective import EffectiveConfig, TopicConfig
from broker.replication.alter_partition_manager import AlterPartitionManager
from broker.replication.damaged_replicas import DamagedReplicas
from broker.replication.leader_role import LeaderRole
from broker.replication.log_flusher import LogFlusher
from broker.replication.partition import Partition
from broker.replication.partition_context import PartitionContext, PartitionTasks
from broker.replication.partition_file_queue import PartitionFileQueue
from broker.replication.replica_directories import ReplicaDirectories, has_replica
from broker.replication.replica_moves import ReplicaMoves
from broker.replication.role_changes import apply_image
from broker.replication.stray_logs import rename_strays
from broker.replication.topic_traffic import TopicTraffic
from broker.storage.damage import Damage
from broker.storage.log import Log
from broker.storage.log_manager import LogManager
from broker.wire.errors import ErrorCode, KafkaError
from kraft.env import FsyncFailed, Tracer
from metadata.image import BrokerImage, MetadataDelta, MetadataImage, PartitionImage, TopicDelta, TopicImage
from metadata.protocol import ConfigResourceType

# Called with the partitions whose source to fetch from, or leader epoch, has changed. Must not block.
FollowedListener: TypeAlias = Callable[[Sequence[Partition]], None]
# Called with the partitions that this broker now leads under another epoch, or leads no longer. Must not block.
LedListener: TypeAlias = Callable[[Sequence[Partition]], None]


class LocalTopic:
    """The partitions of one topic that have a replica on this broker, by index."""

    __slots__ = ("name", "partitions", "topic_id", "traffic")

    def __init__(self, name: str, topic_id: bytes) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: dict[int, Partition] = {}
        self.traffic = TopicTraffic()


class ReplicaManager:
    """See the module's docstring. From `start` on it is a publisher of the metadata loader.

    `topics` contains each topic twice, by its name and by its id. `file_queue` creates and deletes the files of
    partitions and must be run. `damaged` are the replicas with damaged logs, `moves` those that move to another log
    directory. `turn_ms` is the wall-clock time at which the first batch of the current turn was appended, set by the
    appender; 0 if there is none. Reading the clock for each batch costs 4 % of a small append.
    """

    def __init__(
        self,
        local_id: int,
        log_manager: LogManager,
        configs: EffectiveConfig,
        trace: Tracer,
        now_ms: Callable[[], int],
    ) -> None:
        self._local_id = local_id
        self._log_manager = log_manager
        self._configs = configs
        self._trace = trace
        self.topics: dict[str | bytes, LocalTopic] = {}
        self._staged: dict[Partition, None] = {}
        self._to_stage: list[Callable[[], None]] = []
        self.damaged, self._lost, self.turn_ms = DamagedReplicas(), False, 0
        self._image: MetadataImage | None = None
        self._high_watermarks: Mapping[tuple[str, int], int] = {}
        self._followed_listeners: list[FollowedListener] = []
        self._source_changed: list[Partition] = []
        self._led_listeners: list[LedListener] = []
        self._leadership_changed: list[Partition] = []
        self.file_queue = PartitionFileQueue(self._notify_listeners)
        self.flusher = LogFlusher(now_ms, self.log_failed)
        lag_max_ms = configs.config.replica_lag_time_max_ms
        self.isr_changes = AlterPartitionManager(local_id, self._leaders_with_followers, lag_max_ms=lag_max_ms)
        self.context, self._tasks = self._partition_context(lag_max_ms), self._partition_tasks()
        self.directories = ReplicaDirectories(local_id, self._directory_of, trace)
        self.moves = ReplicaMoves(log_manager, self.directories, self._image_of, self.commit_staged, self._replace_log)
        self._offline_listeners: list[Callable[[], None]] = []
        log_manager.on_offline = self._on_offline

    def _partition_context(self, lag_max_ms: float) -> PartitionContext:
        return PartitionContext(
            local_id=self._local_id,
            lag_max_ms=lag_max_ms,
            now_ms=lambda: trio.current_time() * 1000,
            broker=self._broker,
            trace=self._trace,
        )

    def _partition_tasks(self) -> PartitionTasks[Partition]:
        checks = self.damaged.checks
        return PartitionTasks(
            propose_isr=self.isr_changes.propose,
            flush=self.flusher.add,
            check_log=checks.add,
            check_old=checks.add_old,
        )

    def topic(self, key: str | bytes) -> LocalTopic | None:
        """The topic with this name or id; None if it has no replica on this broker."""
        return self.topics.get(key)

    def get(self, key: str | bytes, index: int) -> Partition:
        """The partition with this topic name or id and index. Raises the KafkaError of `absent`."""
        partition = self.find(key, index)
        if partition is None:
            raise self.absent(key, index)
        return partition

    def find(self, key: str | bytes, index: int) -> Partition | None:
        """The partition with this topic name or id and index; None without a replica on this broker."""
        topic = self.topics.get(key)
        return None if topic is None else topic.partitions.get(index)

    def absent(self, key: str | bytes, index: int) -> KafkaError:
        """The error for a partition without a replica on this broker."""
        assert self._image is not None, "requests are served after start"
        topics = self._image.topics
        topic = topics.by_id.get(key) if isinstance(key, bytes) else topics.by_name.get(key)
        if topic is None and isinstance(key, bytes):
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
        if topic is None or index not in topic.partitions:
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another broker leads this partition")

    def stage(self, partition: Partition) -> None:
        """Have the partition's log committed at the end of the turn."""
        self._staged[partition] = None

    def stage_later(self, stage: Callable[[], None]) -> None:
        """Have `stage` called before the turn commits, to append what was collected during the turn."""
        self._to_stage.append(stage)

    def commit_staged(self) -> None:
        """Write the staged batches, then advance the high watermarks and notify waiting requests.

        If a write fails, the log directory of that partition goes offline, as in Kafka, and `end_turn` returns False.
        """
        if self._to_stage:
            to_stage, self._to_stage = self._to_stage, []
            for stage in to_stage:
                stage()
        if not self._staged:
            return
        staged, self._staged = self._staged, {}
        for partition in staged:
            log = partition.role.log
            if log is None:
                self._lost = True  # the log directory has failed during this turn
            else:
                try:
                    log.commit()
                except FsyncFailed:
                    raise
                except OSError as error:
                    self._lost = True
                    self.log_failed(partition, error)
        for partition in staged:
            partition.log_appended()

    def end_turn(self) -> bool:
        """Commit; False if a write of this turn has failed, so that none of its requests may be acknowledged."""
        self.turn_ms = 0
        if self._staged or self._to_stage:
            self.commit_staged()
        if self._lost:
            self._lost = False
            return False
        return True

    def log_failed(self, partition: Partition, error: OSError) -> None:
        """Take the log directory of the partition, whose log failed, offline with all its logs."""
        self._log_manager.log_failed(partition.topic, partition.index, error)

    def report_damage(self, topic_partition: tuple[str, int], damage: Damage) -> None:
        """Handle damage that was found in the log of a replica of this broker; does nothing if it is known."""
        partition = self.find(*topic_partition)
        if partition is not None:
            self.damaged.add(partition, damage)

    def high_watermark(self, topic: str, index: int) -> int:
        """The partition's high watermark; 0 without a replica on this broker."""
        partition = self.find(topic, index)
        return 0 if partition is None else partition.high_watermark

    @property
    def local_topics(self) -> list[LocalTopic]:
        """The topics with a replica on this broker."""
        return [topic for key, topic in self.topics.items() if isinstance(key, str)]

    def when_followed(self, listener: FollowedListener) -> None:
        """Have `listener` called after each change of `Partition.source`."""
        self._followed_listeners.append(listener)

    def when_led(self, listener: LedListener) -> None:
        """Have `listener` called after each change of `Partition.leads`."""
        self._led_listeners.append(listener)

    def when_log_dir_failed(self, listener: Callable[[], None]) -> None:
        """Have `listener` called when a log directory has failed. It must not block."""
        self._offline_listeners.append(listener)

    def start(self, image: MetadataImage) -> None:
        """Apply the whole image, once the existing logs are loaded; the logs of deleted topics are removed."""
        rename_strays(self._log_manager, image, self._local_id, self._trace)
        self.moves.futures.recover(partial(has_replica, image, self._local_id))
        self._image = image
        self.file_queue.begin()
        self._high_watermarks = self._log_manager.read_high_watermarks()
        for topic in image.topics.by_name.values():
            self._apply_topic(topic.name, topic.topic_id, dict(topic.partitions.items()), None)
        self._high_watermarks = {}
        self._notify_listeners()

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply a change of the metadata; does nothing before `start`."""
        if self._image is None:
            return
        self._image = image
        self.file_queue.begin()
        for topic in delta.topics.deleted.values():
            self._drop_topic(topic)  # before its configs are removed
        self._apply_configs(delta, image)
        for changed in delta.topics.changed.values():
            self._apply_topic(changed.name, changed.topic_id, changed.partitions, changed)
        self._notify_listeners()

    def _directory_of(self, topic: str, index: int) -> bytes | None:
        directory = self._log_manager.directory_of(topic, index)
        return None if directory is None or directory.properties is None else directory.properties.directory_id

    def _broker(self, broker_id: int) -> BrokerImage | None:
        return None if self._image is None else self._image.cluster.brokers.get(broker_id)

    def _leaders_with_followers(self) -> Iterator[LeaderRole]:
        for topic in self.local_topics:
            for partition in list(topic.partitions.values()):
                role = partition.role
                if isinstance(role, LeaderRole) and role.in_sync.followers:
                    yield role

    def _notify_listeners(self) -> None:
        if self._source_changed:
            changed, self._source_changed = self._source_changed, []
            for listener in self._followed_listeners:
                listener(changed)
        if self._leadership_changed:
            changed, self._leadership_changed = self._leadership_changed, []
            for listener in self._led_listeners:
                listener(changed)

    def _apply_topic(
        self, name: str, topic_id: bytes, partitions: Mapping[int, PartitionImage], delta: TopicDelta | None
    ) -> None:
        """Apply new or changed partitions of a topic. `delta` is None at the start, when logs may exist already."""
        assert self._image is not None, "set by every caller"
        local = self.topics.get(topic_id)
        config = self._configs.topic(name, self._image.configs.topic(name))
        for index, image in partitions.items():
            partition = None if local is None else local.partitions.get(index)
            if self._local_id not in image.replicas:
                if local is not None and partition is not None:
                    self._drop_partition(local, index)
            elif partition is not None:
                self._apply(partition, image, config)
            elif (name, index) in self._log_manager.logs and delta is None:
                self._create(topic_id, index, is_new=False)
            else:
                is_new = delta is not None and self._is_new(delta, index)
                self.file_queue.add(partial(self._create, topic_id, index, is_new=is_new))

    def _is_new(self, delta: TopicDelta, index: int) -> bool:
        """Whether this broker had no replica of the partition before `delta`."""
        before = None if delta.base is None else delta.base.partitions.get(index)
        return before is None or self._local_id not in before.replicas

    def _apply(self, partition: Partition, image: PartitionImage, config: TopicConfig) -> None:
        before, led_before = (partition.source, partition.leader_epoch), partition.leads
        partition.configure(config)
        apply_image(partition, image)
        self.directories.compare(partition, image)
        if isinstance(partition.role, LeaderRole):
            partition.role.propose_recovery(image)
        after = (partition.source, partition.leader_epoch)
        if before != after and (before[0] is not None or after[0] is not None):
            self._source_changed.append(partition)
        if before[1] != after[1] and (led_before or partition.leads):
            self._leadership_changed.append(partition)

    def _create(self, topic_id: bytes, index: int, *, is_new: bool) -> None:
        """Create the replica, unless the metadata has removed it from this broker meanwhile."""
        assert self._image is not None, "set before a replica is created"
        topic = self._image.topics.by_id.get(topic_id)
        image = None if topic is None else topic.partitions.get(index)
        if topic is None or image is None or self._local_id not in image.replicas:
            return
        local = self.topics.get(topic_id)
        if local is None:
            local = self.topics[topic.name] = self.topics[topic_id] = LocalTopic(topic.name, topic_id)
        if index in local.partitions:
            return
        config = self._configs.topic(topic.name, self._image.configs.topic(topic.name))
        log = self._create_log(local, index, config, is_new=is_new)
        high_watermark = self._high_watermarks.get((topic.name, index), 0)
        partition = Partition(topic.name, topic_id, index, log, self.context, self._tasks, high_watermark)
        partition.topic_traffic = local.traffic
        if log is not None:
            log.segments.on_damaged = partial(self.damaged.add, partition)
        local.partitions[index] = partition
        self._apply(partition, image, config)
        self.moves.resume(partition)

    def _create_log(self, topic: LocalTopic, index: int, config: TopicConfig, *, is_new: bool) -> Log | None:
        try:
            return self._log_manager.create(
                topic.name,
                topic.topic_id,
                index,
                config.log,
                is_new=is_new,
                destination=self.moves.take_destination((topic.name, index)),
            )
        except KafkaError as error:
            self._trace("partition_offline", topic=topic.name, partition=index, error=str(error))
            return None

    def _replace_log(self, partition: Partition, log: Log) -> None:
        """Continue with a copy of the replica's log in another directory."""
        partition.replace_log(log)
        log.segments.on_damaged = partial(self.damaged.add, partition)

    def _image_of(self, partition: Partition) -> PartitionImage | None:
        """The newest metadata of a replica."""
        topic = None if self._image is None else self._image.topics.by_id.get(partition.topic_id)
        return None if topic is None else topic.partitions.get(partition.index)

    def _apply_configs(self, delta: MetadataDelta, image: MetadataImage) -> None:
        changed = delta.configs.changed
        if any(resource.type == ConfigResourceType.BROKER for resource in changed):
            names = [key for key in self.topics if isinstance(key, str)]
        else:
            names = [resource.name for resource in changed if resource.type == ConfigResourceType.TOPIC]
        for name in names:
            local = self.topics.get(name)
            if local is not None:
                config = self._configs.topic(name, image.configs.topic(name))
                for partition in local.partitions.values():
                    partition.configure(config)

    def _drop_topic(self, topic: TopicImage) -> None:
        local = self.topics.pop(topic.topic_id, None)
        if local is None:
            return
        if self.topics.get(topic.name) is local:
            del self.topics[topic.name]
        for index in list(local.partitions):
            self._drop_partition(local, index)

    def _drop_partition(self, topic: LocalTopic, index: int) -> None:
        partition = topic.partitions.pop(index)
        if partition.source is not None:
            self._source_changed.append(partition)
        elif partition.leads:
            self._leadership_changed.append(partition)
        partition.close(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.moves.removed(partition)
        self.file_queue.add(partial(self._delete_log, topic.name, index))

    def _delete_log(self, topic: str, index: int) -> None:
        try:
            self._log_manager.delete(topic, index)
        except KafkaError as error:
            self._trace("partition_left_behind", topic=topic, partition=index, error=str(error))

    def _on_offline(self, path: str, partitions: Sequence[tuple[str, int]], error: OSError) -> None:
        for name, index in partitions:
            partition = self.find(name, index)
            if partition is not None:
                if partition.source is not None:
                    self._source_changed.append(partition)
                elif partition.leads:
                    self._leadership_changed.append(partition)
                partition.close(ErrorCode.KAFKA_STORAGE_ERROR)
        self.moves.directory_failed()
        self._notify_listeners()
        for listener in self._offline_listeners:
            listener()
