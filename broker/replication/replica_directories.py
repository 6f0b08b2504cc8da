"""Reports to the controller which log directories hold this broker's replicas (AssignReplicasToDirs, KIP-858).

When a directory fails, the controller elects other leaders for exactly the replicas that it knows to be there.

A replica that moves to another directory is assigned to it before its log is there, so that a restart in between finds
the right one of two logs. If the move fails after that, or the old directory does, the old directory is reported again.
"""

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final, TypeAlias

import attrs
import trio

from broker.replication.alter_partition_manager import Controllers
from broker.replication.partition import Partition
from broker.storage.log_dir import PartitionKey
from broker.wire.api.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    Directory,
    Topic,
)
from broker.wire.api.assign_replicas_to_dirs import Partition as AssignedPartition
from broker.wire.errors import ErrorCode, KafkaError
from kraft import lazy_attrs
from kraft.env import Tracer
from metadata.ids import LOST_DIRECTORY, UNASSIGNED_DIRECTORY, is_reserved
from metadata.image import MetadataImage, PartitionImage

# The most assignments in one request, as in Kafka.
ASSIGNMENTS_MAX: Final = 2250
REQUEST_TIMEOUT_MS: Final = 5_000
# The pause after a failed request, doubled each time, as in Kafka.
BACKOFF_MS: Final = 100
BACKOFF_MAX_MS: Final = 10_000
_VERSION: Final = 0

_Key: TypeAlias = tuple[bytes, int]


@lazy_attrs.define(eq=False)
class _Assignment:
    """A directory to which a replica is about to move. `accepted` is None until the controller has answered."""

    directory_id: bytes
    answered: trio.Event = attrs.field(factory=trio.Event)
    accepted: bool | None = None

    def answer(self, accepted: bool) -> None:
        self.accepted = accepted
        self.answered.set()


class ReplicaDirectories:
    """`directory_of` returns the id of the online directory with a partition's log, None without one."""

    def __init__(self, local_id: int, directory_of: Callable[[str, int], bytes | None], trace: Tracer) -> None:
        self._local_id = local_id
        self._directory_of = directory_of
        self._trace = trace
        self._unreported: dict[_Key, bytes] = {}
        self._assignments: dict[_Key, _Assignment] = {}
        self._work = trio.Event()

    def compare(self, partition: Partition, image: PartitionImage) -> None:
        """Report the replica's directory if the metadata has another one or none."""
        known = UNASSIGNED_DIRECTORY
        if image.directories:
            known = image.directories[image.replicas.index(self._local_id)]
        assignment = self._assignments.get(_key(partition))
        actual = self._actual(partition) if assignment is None else assignment.directory_id
        if actual is None and known == UNASSIGNED_DIRECTORY:
            actual = LOST_DIRECTORY  # otherwise this broker could be elected as its leader
        if actual not in (None, known):
            assert actual is not None, "a directory other than None was found"
            self._report(_key(partition), actual)

    async def assign(self, partition: Partition, directory_id: bytes) -> bool:
        """Tell the controller that the replica is about to move to a directory; False if it refuses that.

        Waits until the controller has committed it. The assignment holds until `moved` or `release` is called.
        """
        key = _key(partition)
        assignment = self._assignments[key] = _Assignment(directory_id)
        self._report(key, directory_id)
        await assignment.answered.wait()
        return bool(assignment.accepted)

    def moved(self, partition: Partition) -> None:
        """The replica is in the directory to which it was assigned."""
        partition.directory_id = self._assignments.pop(_key(partition)).directory_id

    def release(self, partition: Partition, image: PartitionImage | None) -> None:
        """The replica stays where it is: report that if the metadata, `image`, has the directory of an assignment."""
        key = _key(partition)
        if self._assignments.pop(key, None) is None:
            return
        self._unreported.pop(key, None)
        if image is not None and self._local_id in image.replicas:
            self.compare(partition, image)

    def _report(self, key: _Key, directory_id: bytes) -> None:
        self._unreported[key] = directory_id
        self._work.set()

    def _actual(self, partition: Partition) -> bytes | None:
        """The directory in which the log was found or created, even if it has failed since."""
        if partition.directory_id is None and partition.log is not None:
            partition.directory_id = self._directory_of(partition.topic, partition.index)
        return partition.directory_id

    async def run(self, controllers: Controllers, broker_epoch: Callable[[], int]) -> None:
        """Send reports until cancelled. `broker_epoch` returns the epoch of this broker's registration."""
        failures = 0
        while True:
            await self._work.wait()
            while self._unreported:
                if await self._send_report(controllers, broker_epoch()):
                    failures = 0
                    continue
                await trio.sleep(min(BACKOFF_MAX_MS, BACKOFF_MS * 2 ** min(failures, 10)) / 1000)
                failures += 1
            self._work = trio.Event()

    async def _send_report(self, controllers: Controllers, broker_epoch: int) -> bool:
        """Send one request; returns whether the answer has one of its replicas.

        Replicas that the controller does not know are dropped, those that the answer leaves out are reported again.
        """
        sent = dict(islice(self._unreported.items(), ASSIGNMENTS_MAX))
        request = AssignReplicasToDirsRequest(
            broker_id=self._local_id, broker_epoch=broker_epoch, directories=_by_directory(sent)
        )
        try:
            response = await controllers.call(request, _VERSION, timeout_ms=REQUEST_TIMEOUT_MS)
        except KafkaError as error:
            self._trace("directories_not_assigned", node=self._local_id, error=error.code.name)
            return False
        return self._handle_response(sent, response)

    def _handle_response(self, sent: Mapping[_Key, bytes], response: AssignReplicasToDirsResponse) -> bool:
        if response.error_code:
            self._trace("directories_not_assigned", node=self._local_id, error=response.error_code)
            return False
        is_answered = False
        for directory in response.directories:
            for topic in directory.topics:
                for partition in topic.partitions:
                    key = (topic.topic_id, partition.partition_index)
                    if key not in sent:
                        continue
                    is_answered = True
                    if partition.error_code != ErrorCode.NONE:
                        self._trace("directory_assignment_refused", node=self._local_id, error=partition.error_code)
                    if self._unreported.get(key) == sent[key]:
                        del self._unreported[key]
                        assignment = self._assignments.get(key)
                        if assignment is not None:
                            assignment.answer(partition.error_code == ErrorCode.NONE)
        if not is_answered:
            self._trace("directories_not_assigned", node=self._local_id, error="the answer has none of the replicas")
        return is_answered


def _key(partition: Partition) -> _Key:
    return partition.topic_id, partition.index


def _by_directory(assignments: Mapping[_Key, bytes]) -> list[Directory]:
    directories: dict[bytes, Directory] = {}
    topics: dict[tuple[bytes, bytes], Topic] = {}
    for (topic_id, index), directory_id in assignments.items():
        directory = directories.setdefault(directory_id, Directory(id_=directory_id))
        topic = topics.get((directory_id, topic_id))
        if topic is None:
            topic = topics[directory_id, topic_id] = Topic(topic_id=topic_id)
            directory.topics.append(topic)
        topic.partitions.append(AssignedPartition(partition_index=index))
    return list(directories.values())


def has_replica(
    image: MetadataImage, broker_id: int, key: PartitionKey, topic_id: bytes | None, directory_id: bytes | None = None
) -> bool:
    """Whether the metadata assigns a replica of the partition to the broker, with this topic id if it is known.

    With a directory id, also whether the replica may be in that directory: the metadata has it there, or in none.
    """
    name, index = key
    topic = image.topics.by_name.get(name)
    partition = None if topic is None else topic.partitions.get(index)
    if topic is None or partition is None or topic_id not in (None, topic.topic_id):
        return False
    if broker_id not in partition.replicas:
        return False
    if directory_id is None or not partition.directories:
        return True
    known = partition.directories[partition.replicas.index(broker_id)]
    return known == directory_id or is_reserved(known)
