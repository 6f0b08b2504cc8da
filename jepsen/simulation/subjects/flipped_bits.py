"""Flips bits in the files of running brokers' partitions, and knows which of them are left.

At most one replica of a partition has a flipped bit at a time, and only records that all its replicas have on their
disks are hit: whatever happens to the other brokers, the record is on their disks. So nothing acknowledged may be lost.

The leader epoch and the base offset of a batch have no checksum. A reader takes them as they are until the scrubber
finds them, so they flip only on the disk, while the page cache has them intact. A flipped `meta.properties` is left
out: a node that starts with it refuses to.
"""

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Final

import attrs
import trio

from broker.storage.scrub.place import SCRUB_CHECKPOINT
from broker.wire.records import iter_headers
from jepsen.checkers import Anomaly
from jepsen.checkers.reads import NothingIsCorrupt
from jepsen.history import Operation
from jepsen.simulation.cluster import Cluster
from jepsen.simulation.disk import Volume
from jepsen.simulation.disk.tree import Directory, Flip, Inode
from jepsen.simulation.hosts import Host
from jepsen.simulation.invariants import Committed, Invariant
from jepsen.simulation.invariants.committed import CommittedLog, Key
from jepsen.simulation.simulation import Simulation
from jepsen.simulation.subjects.node_plan import SCRUB_INTERVAL_MS
from jepsen.simulation.trace import Event

# Base offset, and leader epoch.
_WITHOUT_CHECKSUM: Final = (*range(8), *range(12, 16))
_SEGMENT: Final = ".log"
# The endings of the names of the files that may be hit, and how often each is chosen.
_KINDS: Final = (
    *(_SEGMENT,) * 4,
    *(".index", ".timeindex", ".txnindex", ".snapshot"),
    *("leader-epoch-checkpoint", "partition.metadata", "-offset-checkpoint"),
)
# The events with which a node says that it has found damage, and the field with the path of the file.
FOUND_BY: Final = ("partition_damaged", "storage_file_rebuilt", "storage_batch_rewritten")
# The time that scrubbers take at most to find all flipped bits once no faults occur, with that of repairs.
_REPAIR_SECONDS: Final = 3 * SCRUB_INTERVAL_MS / 1000 + 15
# A pass may have read the file before the bit flipped, and gives a segment up that changes under each attempt.
_PASSES_MAX: Final = 3


@attrs.define(eq=False)
class FlippedBit:
    """A bit that has flipped in a file of a partition, or (without `key`) of a log directory.

    `incarnation` is the process that ran then, and `passes` counts those of its scrubber since. `is_found` once a node
    has reported it. `until` is when it was seen to be gone.
    """

    host: Host
    directory: str
    path: str
    key: Key | None
    inode: Inode
    flip: Flip
    since: float
    in_cache: bool
    incarnation: int
    passes: int = 0
    is_found: bool = False
    until: float | None = None

    def __str__(self) -> str:
        return f"byte {self.flip.at} of {self.host}:{self.path}, flipped at {self.since:.3f}"

    @property
    def is_there(self) -> bool:
        """True if the file has its name, in the page cache or on the disk, and still has the flipped bit."""
        parent, _, name = self.path.rpartition("/")
        volume = self.host.volume
        nodes = [directory.get(name) for directory in entries_of(volume, parent)]
        return any(node is self.inode for node in nodes) and self.inode.is_flipped


@attrs.define(eq=False)
class FlippedBits:
    """See the module's docstring. No bit flips before `watch` is called."""

    simulation: Simulation
    committed: Committed
    cluster: Cluster
    flips: list[FlippedBit] = attrs.field(factory=list)
    _topics: Sequence[str] = ()
    _directories: Sequence[str] = ()

    def watch(self, topics: Sequence[str], directories: Sequence[str]) -> None:
        """Let bits flip in these topics' partitions, in the log directories of all brokers."""
        self._topics, self._directories = topics, directories
        self.simulation.trace.listeners.append(self._observe)

    @property
    def _brokers(self) -> dict[int, Host]:
        return {broker_id: self.cluster.nodes[name] for name, broker_id in self.committed.nodes.items()}

    def _now(self) -> float:
        return self.simulation.clock.current_time()

    @property
    def left(self) -> list[FlippedBit]:
        """The flipped bits that are still there."""
        for each in self.flips:
            if each.until is None and not each.is_there:
                each.until = self._now()
        return [each for each in self.flips if each.until is None]

    def flip(self, rng: Random) -> None:
        """Flip a bit, or none if there is no file of the drawn kind in which one may flip."""
        self._mark_damaged()
        kind = rng.choice(_KINDS)
        candidates = [
            (broker_id, directory) for broker_id, host in self._brokers.items() for directory in self._directories
        ]
        rng.shuffle(candidates)
        for broker_id, directory in candidates:
            files = list(self._files(broker_id, directory, kind))
            if files:
                path, key, inode = rng.choice(files)
                places = self._places(broker_id, key, inode, is_segment=kind == _SEGMENT)
                if places:
                    self._flip(broker_id, directory, path, key, inode, rng.choice(places), rng)
                    return

    def _flip(
        self, broker_id: int, directory: str, path: str, key: Key | None, inode: Inode, place: range, rng: Random
    ) -> None:
        at = rng.choice(place)
        has_checksum = not path.endswith(_SEGMENT) or at - place.start not in _WITHOUT_CHECKSUM
        in_cache = has_checksum and rng.random() < 0.6
        inode.flip(at, 1 << rng.randrange(8), in_cache=in_cache)
        host = self._brokers[broker_id]
        self.flips.append(
            FlippedBit(host, directory, path, key, inode, inode.flips[-1], self._now(), in_cache, host.incarnation)
        )
        self._mark_damaged()
        self.simulation.trace.event(host.name, "bit_flipped", {"path": path, "at": at, "in_cache": in_cache})

    def _files(self, broker_id: int, directory: str, kind: str) -> Iterator[tuple[str, Key | None, Inode]]:
        """The files of a kind in which a bit may flip, with their paths and partitions."""
        volume = self._brokers[broker_id].volume
        entries = _present(volume, directory)
        if kind == "-offset-checkpoint":
            if all(self._may_flip(broker_id, log) for log in self.committed.logs.values()):
                for name, node in entries.items():
                    if name.endswith(kind) and name != SCRUB_CHECKPOINT and isinstance(node, Inode) and node.durable:
                        yield f"{directory}/{name}", None, node
            return
        for key, log in self.committed.logs.items():
            partition = f"{directory}/{log.topic}-{key[1]}"
            if log.topic not in self._topics or not self._may_flip(broker_id, log) or broker_id not in log.copies:
                continue
            for name, node in _present(volume, partition).items():
                if name.endswith(kind) and isinstance(node, Inode) and node.durable:
                    yield f"{partition}/{name}", key, node

    def _may_flip(self, broker_id: int, log: CommittedLog) -> bool:
        """True if all replicas of the partition are in sync and intact, or if this broker has none."""
        image = log.image
        if broker_id not in image.replicas:
            return True
        return (
            len(image.replicas) > 1
            and sorted(image.isr) == sorted(image.replicas)
            and not log.unclean
            and not log.damaged
        )

    def _places(self, broker_id: int, key: Key | None, inode: Inode, *, is_segment: bool) -> list[range]:
        """The parts of a file in which a bit may flip: those that are on the disk, and not to be written again.

        In a segment, these are the batches that all other replicas have on their disks, too.
        """
        durable, cached = bytes(inode.durable), bytes(inode.cached)
        if not is_segment:
            whole = range(len(durable))
            same = durable == cached[: len(durable)] and not inode.is_dirty_in(whole)
            return [whole] if same and durable else []
        assert key is not None, "segments are those of partitions"
        log = self.committed.logs[key]
        others = [self._durable_log(each, log, key) for each in log.image.replicas if each != broker_id]
        return [
            range(at, at + header.size)
            for at, header in iter_headers(durable)
            if (batch := durable[at : at + header.size]) == cached[at : at + header.size]
            and not inode.is_dirty_in(range(at, at + header.size))
            and all(batch in other for other in others)
        ]

    def _durable_log(self, broker_id: int, log: CommittedLog, key: Key) -> bytes:
        """The segments of a replica, as they are on the disk."""
        found = b""
        for directory in self._directories:
            path = f"{directory}/{log.topic}-{key[1]}"
            _, durable = entries_of(self._brokers[broker_id].volume, path)
            segments = [node for name, node in sorted(durable.items()) if name.endswith(_SEGMENT)]
            found += b"".join(bytes(node.durable) for node in segments if isinstance(node, Inode))
        return found

    def _mark_damaged(self) -> None:
        """Set `damaged` of all partitions."""
        ids = {host.name: broker_id for broker_id, host in self._brokers.items()}
        left = self.left
        for key, log in self.committed.logs.items():
            log.damaged = tuple(
                ids[each.host.name]
                for each in left
                if each.key == key or (each.key is None and ids[each.host.name] in log.image.replicas)
            )

    def _observe(self, event: Event) -> None:
        if event.kind in FOUND_BY:
            for each in self.flips:
                if each.host.name == event.host and each.path == event.fields["path"]:
                    each.is_found = True
        elif event.kind == "storage_scrubbed":
            for each in self.flips:
                if each.host.name == event.host and each.directory == event.fields["path"]:
                    each.passes += each.host.incarnation == each.incarnation
        elif event.kind in ("process_killed", "power_cut", "process_ended"):
            self._mark_damaged()

    # Promises

    def invariants(self) -> "list[Invariant]":
        return [PassesFindFlips(self), OnlyFlipsAreDamage(self)]

    async def wait_repaired(self) -> None:
        """Wait until no flipped bit is left, as long as scrubbers may take; `anomalies` has those that are."""
        with trio.move_on_after(_REPAIR_SECONDS):
            while self.left:
                await trio.sleep(0.1)

    def is_unexpected(self, anomaly: Anomaly) -> bool:
        """False for a poll that may have met a flipped bit, and refused the batch for its checksum."""
        if anomaly.promise != NothingIsCorrupt.__name__:
            return True
        (operation,) = anomaly.proof
        is_poll = operation.function.startswith("poll")
        return not (is_poll and self._has_flips(operation.value.topic, operation.value.partition, operation))

    def _has_flips(self, topic: str, index: int, operation: Operation) -> bool:
        """Whether a bit was flipped in the partition during the operation."""
        _ = self.left  # sets the ends
        end = operation.completed_at
        for each in self.flips:
            log = None if each.key is None else self.committed.logs.get(each.key)
            if log is not None and each.key is not None and (log.topic, each.key[1]) == (topic, index):
                is_over = each.until is not None and each.until < operation.invoked_at
                if not is_over and (end is None or each.since <= end):
                    return True
        return False

    def anomalies(self) -> Iterator[Anomaly]:
        for each in self.left:
            yield Anomaly("FlippedBitsAreRepaired", f"{each} is {'found, and ' * each.is_found}not repaired")


class PassesFindFlips:
    """A whole pass of the scrubber finds each flipped bit in its directory."""

    kinds: Sequence[str] = ("storage_scrubbed",)

    def __init__(self, flipped: FlippedBits) -> None:
        self._flipped = flipped

    def observe(self, event: Event) -> str | None:
        for each in self._flipped.flips:
            is_late = each.passes >= _PASSES_MAX and not each.is_found and each.host.name == event.host
            if is_late and each.incarnation == each.host.incarnation and each.is_there:
                return f"{each} is not found by {each.passes} passes"
        return None


class OnlyFlipsAreDamage:
    """A node reports damage only to files in which a bit has flipped."""

    kinds: Sequence[str] = ("partition_damaged",)

    def __init__(self, flipped: FlippedBits) -> None:
        self._flipped = flipped

    def observe(self, event: Event) -> str | None:
        path = event.fields["path"]
        if any(each.host.name == event.host and each.path == path for each in self._flipped.flips):
            return None
        return f"{event.host} reports damage to {path}, which has none: {event.fields['reason']}"


def entries_of(volume: Volume, path: str) -> tuple[Mapping[str, object], Mapping[str, object]]:
    """The entries of a directory, in the page cache and on the disk; none if it is missing there."""
    return _present(volume, path), _durable(volume, path)


def _present(volume: Volume, path: str) -> Mapping[str, object]:
    try:
        node = volume.find(path)
    except NotADirectoryError:
        return {}
    return node.entries if isinstance(node, Directory) else {}


def _durable(volume: Volume, path: str) -> Mapping[str, object]:
    node: object = volume.root
    for name in filter(None, path.split("/")):
        if not isinstance(node, Directory):
            return {}
        node = node.durable.get(name)
    return node.durable if isinstance(node, Directory) else {}
