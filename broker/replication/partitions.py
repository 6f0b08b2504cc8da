"""Every partition this broker has a replica of: made, led and dropped as the metadata says."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

import trio

from broker.config.effective import EffectiveConfig, TopicConfig
from broker.replication.backlog import Backlog
from broker.replication.flushes import Flushes
from broker.replication.isr_changes import IsrChanges
from broker.replication.leading import propose_recovery
from broker.replication.partition import Partition
from broker.replication.replica_directories import ReplicaDirectories, has_replica
from broker.replication.surroundings import Surroundings
from broker.storage.log import Log
from broker.storage.log_dirs import LogDirs
from broker.storage.partition_directory import partition_directory_name
from broker.wire.errors import ErrorCode, KafkaError
from kraft.env import FsyncFailed, Tracer
from metadata.configuration import ResourceType
from metadata.image import BrokerImage, MetadataDelta, MetadataImage, PartitionImage, TopicDelta, TopicImage

# Hears of the partitions of which the source to fetch from, or the leader epoch, is another one now. Must not block.
FollowedListener: TypeAlias = Callable[[Sequence[Partition]], None]
# Hears of the partitions that this broker leads under another epoch now, or no more. Must not block.
LedListener: TypeAlias = Callable[[Sequence[Partition]], None]

# Partitions that are named when logs are put aside, of as many as there may be.
_STRAYS_SHOWN: Final = 10


class LocalTopic:
    """The partitions of one topic that have a replica here, by index."""

    __slots__ = ("name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: bytes) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: dict[int, Partition] = {}


class Partitions:
    """See the module's docstring. A publisher of the metadata loader, from `start` on.

    `topics` has each topic twice, by its name and by its id.
    """

    def __init__(
        self,
        local_id: int,
        log_dirs: LogDirs,
        configs: EffectiveConfig,
        trace: Tracer,
        now_ms: Callable[[], int],
    ) -> None:
        self._local_id = local_id
        self._log_dirs = log_dirs
        self._configs = configs
        self._trace = trace
        self.topics: dict[str | bytes, LocalTopic] = {}
        self._staged: list[Partition] = []
        self._to_stage: list[Callable[[], None]] = []
        self._lost = False
        self._image: MetadataImage | None = None
        self._high_watermarks: Mapping[tuple[str, int], int] = {}
        self._followed_listeners: list[FollowedListener] = []
        self._followed_anew: list[Partition] = []
        self._led_listeners: list[LedListener] = []
        self._led_anew: list[Partition] = []
        # Makes and removes what of partitions is on disk; it has to be run.
        self.backlog = Backlog(self._tell_changed)
        self.flushes = Flushes(now_ms, self.log_failed)
        lag_max_ms = configs.config.replica_lag_time_max_ms
        self.isr_changes = IsrChanges(local_id, self._led_with_others, lag_max_ms=lag_max_ms)
        self.directories = ReplicaDirectories(local_id, self._directory_of, trace)
        self._offline_listeners: list[Callable[[], None]] = []
        self._surroundings = self._surroundings_of_all(lag_max_ms)
        log_dirs.on_offline = self._on_offline

    def _surroundings_of_all(self, lag_max_ms: float) -> Surroundings:
        return Surroundings(
            local_id=self._local_id,
            lag_max_ms=lag_max_ms,
            now_ms=lambda: trio.current_time() * 1000,
            broker=self._broker,
            propose=self.isr_changes.propose,
            flush=self.flushes.add,
            trace=self._trace,
        )

    def topic(self, key: str | bytes) -> LocalTopic | None:
        """By name or by topic id."""
        return self.topics.get(key)

    def get(self, key: str | bytes, index: int) -> Partition:
        """A partition by its topic's name or id. Raises KafkaError as `absent` says."""
        topic = self.topics.get(key)
        partition = None if topic is None else topic.partitions.get(index)
        if partition is None:
            raise self.absent(key, index)
        return partition

    def absent(self, key: str | bytes, index: int) -> KafkaError:
        """Why a partition is not served here."""
        assert self._image is not None, "requests come after start"
        topics = self._image.topics
        topic = topics.by_id.get(key) if isinstance(key, bytes) else topics.by_name.get(key)
        if topic is None and isinstance(key, bytes):
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
        if topic is None or index not in topic.partitions:
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another broker leads this partition")

    def stage(self, partition: Partition) -> None:
        """The partition's log has something to write when the turn commits."""
        self._staged.append(partition)

    def stage_later(self, stage: Callable[[], None]) -> None:
        """Have `stage` called when the turn commits: it stages what has come together until then."""
        self._to_stage.append(stage)

    def commit_staged(self) -> None:
        """Write what was staged, move high watermarks, wake who waits.

        A partition whose write fails takes its log directory offline, as Kafka does with one that returns errors;
        `end_turn` then tells that something was lost.
        """
        if self._to_stage:
            to_stage, self._to_stage = self._to_stage, []
            for stage in to_stage:
                stage()
        if not self._staged:
            return
        staged, self._staged = self._staged, []
        for partition in staged:
            log = partition.log
            if log is None:
                self._lost = True  # its directory failed with the partition before it
            elif log.staged:
                try:
                    log.commit()
                except FsyncFailed:
                    raise
                except OSError as error:
                    self._lost = True
                    self.log_failed(partition, error)
                else:
                    if partition.answers_at_once:
                        partition.advance_high_watermark()
        for partition in staged:
            if not partition.answers_at_once:
                partition.appended()
            elif partition.waiting:
                partition.wake()

    def end_turn(self) -> bool:
        """Commit; False where a write of this turn failed, now or before, so that nothing of it may be acknowledged."""
        if self._staged or self._to_stage:
            self.commit_staged()
        if self._lost:
            self._lost = False
            return False
        return True

    def log_failed(self, partition: Partition, error: OSError) -> None:
        """The partition's log could not be written: its log directory goes offline, with every log in it."""
        self._log_dirs.log_failed(partition.topic, partition.index, error)

    def high_watermark(self, topic: str, index: int) -> int:
        """0 for a partition that is not here."""
        local = self.topics.get(topic)
        partition = None if local is None else local.partitions.get(index)
        return 0 if partition is None else partition.high_watermark

    def is_of_former_life(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether the broker has registered anew since it had this epoch."""
        return self._surroundings.is_of_former_life(broker_id, broker_epoch)

    def when_followed(self, listener: FollowedListener) -> None:
        """Have `listener` called after each change of whom partitions are fetched from; see `Partition.source`."""
        self._followed_listeners.append(listener)

    def when_led(self, listener: LedListener) -> None:
        """Have `listener` called after each change of what this broker leads; see `Partition.leads`."""
        self._led_listeners.append(listener)

    def when_log_dir_failed(self, listener: Callable[[], None]) -> None:
        """Have `listener` called when a log directory has failed. Must not block."""
        self._offline_listeners.append(listener)

    def start(self, image: MetadataImage) -> None:
        """Take over all the image says, once the logs that exist are loaded; drop logs of topics that are gone."""
        self._drop_strays(image)
        self._image = image
        self.backlog.begin()
        self._high_watermarks = self._log_dirs.read_high_watermarks()
        for topic in image.topics.by_name.values():
            self._apply_topic(topic.name, topic.topic_id, dict(topic.partitions.items()), None)
        self._high_watermarks = {}
        self._tell_changed()

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Follow a change of the metadata; does nothing before `start`."""
        if self._image is None:
            return
        self._image = image
        self.backlog.begin()
        for topic in delta.topics.deleted.values():
            self._drop_topic(topic)  # by its own configs still
        self._apply_configs(delta, image)
        for changed in delta.topics.changed.values():
            self._apply_topic(changed.name, changed.topic_id, changed.partitions, changed)
        self._tell_changed()

    def _directory_of(self, topic: str, index: int) -> bytes | None:
        directory = self._log_dirs.directory_of(topic, index)
        return None if directory is None or directory.properties is None else directory.properties.directory_id

    def _broker(self, broker_id: int) -> BrokerImage | None:
        return None if self._image is None else self._image.cluster.brokers.get(broker_id)

    def _led_with_others(self) -> Iterator[Partition]:
        for key, topic in list(self.topics.items()):
            if isinstance(key, str):
                for partition in list(topic.partitions.values()):
                    if partition.in_sync is not None:
                        yield partition

    def _tell_changed(self) -> None:
        if self._followed_anew:
            changed, self._followed_anew = self._followed_anew, []
            for listener in self._followed_listeners:
                listener(changed)
        if self._led_anew:
            changed, self._led_anew = self._led_anew, []
            for listener in self._led_listeners:
                listener(changed)

    def _apply_topic(
        self, name: str, topic_id: bytes, partitions: Mapping[int, PartitionImage], delta: TopicDelta | None
    ) -> None:
        """These partitions are new, or have changed by `delta`; where there is none, they may have been here before."""
        assert self._image is not None, "set by every caller"
        local = self.topics.get(topic_id)
        config = self._configs.topic(self._image.configs.topic(name))
        for index, image in partitions.items():
            partition = None if local is None else local.partitions.get(index)
            if self._local_id not in image.replicas:
                if local is not None and partition is not None:
                    self._drop_partition(local, index)
            elif partition is not None:
                self._apply(partition, image, config)
            elif (name, index) in self._log_dirs.logs and delta is None:
                self._make(topic_id, index, is_new=False)
            else:
                is_new = delta is not None and self._is_new(delta, index)
                self.backlog.add(partial(self._make, topic_id, index, is_new=is_new))

    def _is_new(self, delta: TopicDelta, index: int) -> bool:
        """Whether this broker had no replica of the partition so far."""
        before = None if delta.base is None else delta.base.partitions.get(index)
        return before is None or self._local_id not in before.replicas

    def _apply(self, partition: Partition, image: PartitionImage, config: TopicConfig) -> None:
        before, led_before = (partition.source, partition.leader_epoch), partition.leads
        partition.configure(config)
        partition.become(image)
        self.directories.compare(partition, image)
        propose_recovery(partition, image)
        after = (partition.source, partition.leader_epoch)
        if before != after and (before[0] is not None or after[0] is not None):
            self._followed_anew.append(partition)
        if before[1] != after[1] and (led_before or partition.leads):
            self._led_anew.append(partition)

    def _make(self, topic_id: bytes, index: int, *, is_new: bool) -> None:
        """Have a replica as the metadata says by now: that may be none any more."""
        assert self._image is not None, "set before there is anything to make"
        topic = self._image.topics.by_id.get(topic_id)
        image = None if topic is None else topic.partitions.get(index)
        if topic is None or image is None or self._local_id not in image.replicas:
            return
        local = self.topics.get(topic_id)
        if local is None:
            local = self.topics[topic.name] = self.topics[topic_id] = LocalTopic(topic.name, topic_id)
        if index in local.partitions:
            return
        config = self._configs.topic(self._image.configs.topic(topic.name))
        log = self._make_log(local, index, config, is_new=is_new)
        high_watermark = self._high_watermarks.get((topic.name, index), 0)
        partition = Partition(topic.name, topic_id, index, log, self._surroundings, high_watermark)
        local.partitions[index] = partition
        self._apply(partition, image, config)

    def _make_log(self, topic: LocalTopic, index: int, config: TopicConfig, *, is_new: bool) -> Log | None:
        try:
            return self._log_dirs.create(topic.name, topic.topic_id, index, config.log, is_new=is_new)
        except KafkaError as error:
            self._trace("partition_offline", topic=topic.name, partition=index, error=str(error))
            return None

    def _apply_configs(self, delta: MetadataDelta, image: MetadataImage) -> None:
        changed = delta.configs.changed
        if any(resource.type == ResourceType.BROKER for resource in changed):
            names = [key for key in self.topics if isinstance(key, str)]
        else:
            names = [resource.name for resource in changed if resource.type == ResourceType.TOPIC]
        for name in names:
            local = self.topics.get(name)
            if local is not None:
                config = self._configs.topic(image.configs.topic(name))
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
            self._followed_anew.append(partition)
        elif partition.leads:
            self._led_anew.append(partition)
        partition.close(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.backlog.add(partial(self._delete_log, topic.name, index))

    def _delete_log(self, topic: str, index: int) -> None:
        try:
            self._log_dirs.delete(topic, index)
        except KafkaError as error:
            self._trace("partition_left_behind", topic=topic, partition=index, error=str(error))

    def _drop_strays(self, image: MetadataImage) -> None:
        """Put the logs aside of topics that were deleted while this broker was down, or that nobody ever knew."""
        strays: dict[str, list[str]] = {}
        for key, topic_id in list(self._log_dirs.topic_ids.items()):
            if not has_replica(image, self._local_id, key, topic_id):
                directory = self._log_dirs.directory_of(*key)
                assert directory is not None, f"{key} is in the log directories"
                strays.setdefault(directory.path, []).append(partition_directory_name(*key))
                self._log_dirs.put_aside(*key)
        for path, partitions in strays.items():
            shown = ", ".join(partitions[:_STRAYS_SHOWN]) + (", ..." if len(partitions) > _STRAYS_SHOWN else "")
            self._trace("stray_logs_renamed", path=path, count=len(partitions), partitions=shown)

    def _on_offline(self, path: str, partitions: Sequence[tuple[str, int]], error: OSError) -> None:
        for name, index in partitions:
            local = self.topics.get(name)
            partition = None if local is None else local.partitions.get(index)
            if partition is not None:
                if partition.source is not None:
                    self._followed_anew.append(partition)
                elif partition.leads:
                    self._led_anew.append(partition)
                partition.close(ErrorCode.KAFKA_STORAGE_ERROR)
        self._tell_changed()
        for listener in self._offline_listeners:
            listener()
