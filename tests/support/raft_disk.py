"""One replica's disk for `raft_harness`: its batches, and which of them survive a crash."""

from random import Random

import attrs

from kraft.core import ElectionState, LogState, OffsetAndEpoch, VoterSet, VoterSetHistory
from kraft.core.control_records import decode_voters
from kraft.replicated_log import Batch, BatchKind


@attrs.frozen
class Snapshot:
    """A snapshot that holds all applied batches instead of a state, so that tests can compare them."""

    place: OffsetAndEpoch
    voters: VoterSet
    batches: tuple[Batch, ...]


@attrs.define
class RaftDisk:
    """`batches` includes unsynced ones; the batches below `synced_end_offset` certainly survive a crash."""

    directory_id: str
    election: ElectionState = attrs.field(factory=ElectionState)
    batches: list[Batch] = attrs.field(factory=list)
    synced_end_offset: int = 0
    snapshot: Snapshot | None = None

    @property
    def start_offset(self) -> int:
        return self.snapshot.place.offset if self.snapshot is not None else 0

    @property
    def end_offset(self) -> int:
        return self.batches[-1].last_offset + 1 if self.batches else self.start_offset

    @property
    def end(self) -> OffsetAndEpoch:
        if self.batches:
            return OffsetAndEpoch(self.end_offset, self.batches[-1].epoch)
        return self.snapshot.place if self.snapshot is not None else OffsetAndEpoch(0, 0)

    def history(self) -> list[Batch]:
        """All batches from the beginning, including those that only the snapshot contains."""
        before = self.snapshot.batches if self.snapshot is not None else ()
        return [*before, *(batch for batch in self.batches if batch.base_offset >= self.start_offset)]

    def append(self, batches: tuple[Batch, ...]) -> None:
        for batch in batches:
            assert batch.base_offset == self.end_offset, f"{batch} behind {self.end}"
            self.batches.append(batch)

    def truncate(self, end_offset: int) -> None:
        self.batches = [batch for batch in self.batches if batch.base_offset < end_offset]
        self.synced_end_offset = min(self.synced_end_offset, end_offset)

    def take_snapshot(self, place: OffsetAndEpoch, voters: VoterSet) -> None:
        past = tuple(batch for batch in self.history() if batch.base_offset < place.offset)
        self.snapshot = Snapshot(place, voters, past)

    def drop_prefix(self) -> None:
        self.batches = [batch for batch in self.batches if batch.base_offset >= self.start_offset]

    def install(self, snapshot: Snapshot) -> None:
        self.snapshot, self.batches, self.synced_end_offset = snapshot, [], snapshot.place.offset

    def crash(self, rng: Random) -> None:
        """Lose some of the unsynced batches, from a random one on."""
        unsynced = [batch for batch in self.batches if batch.base_offset >= self.synced_end_offset]
        lost = rng.randrange(len(unsynced) + 1)
        if lost:
            self.truncate(unsynced[-lost].base_offset)
        self.synced_end_offset = self.end_offset

    def recover(self, initial: VoterSet) -> tuple[ElectionState, LogState, VoterSetHistory]:
        """The recovered state, with which a core starts."""
        log = LogState(self.snapshot.place if self.snapshot is not None else OffsetAndEpoch(0, 0))
        voters = VoterSetHistory(initial)
        if self.snapshot is not None:
            voters.start_at(self.snapshot.place.offset, self.snapshot.voters)
        for batch in self.batches:
            log.append(batch.base_offset, batch.last_offset, batch.epoch)
            if batch.kind is BatchKind.VOTERS:
                voters.append(batch.base_offset, decode_voters(batch.records[0]))
        log.synced(log.end)
        return self.election, log, voters
