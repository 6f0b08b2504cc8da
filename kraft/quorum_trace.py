"""Traces the actions of a quorum node; `kraft.events` declares the kinds and their fields."""

from collections.abc import Sequence
from typing import Final

from kraft.core import Core, ElectionState, OffsetAndEpoch, ReplicaKey, VoterSet
from kraft.core.control_records import decode_voters
from kraft.core.effects import RefusedEpoch, RefusedTruncation, RoleChanged
from kraft.core.transitions import Cause, Role
from kraft.env import Tracer
from kraft.recovery import Recovered
from kraft.replicated_log import Batch, BatchKind

_LOSSES: Final = (Cause.FETCH_TIMEOUT, Cause.LEADER_LOST, Cause.OUT_OF_TOUCH, Cause.MAJORITY_LOST)
# Far more than an election takes that succeeds, also where the nodes of a cluster start one after the other.
_LOST_ELECTIONS: Final = 10


class QuorumTrace:
    """Adds the node's id to events; has methods for events that are derived from the core's state."""

    def __init__(self, tracer: Tracer, me: ReplicaKey) -> None:
        self._tracer = tracer
        self._me = me
        self.voters_offset = -1
        self._led = False
        self._leader_id: int | None = None
        self._lost_elections = 0
        self._election_cause = ""
        self._refused: dict[tuple[int, type], int] = {}

    def __call__(self, kind: str, /, **fields: object) -> None:
        self._tracer(kind, node=self._me.node_id, **fields)

    def recovered(self, core: Core, recovered: Recovered, directory: str) -> None:
        log = recovered.log
        if recovered.damage:
            lost_end = core.log.lost_end
            lost_to = core.end_offset if lost_end is None else lost_end.offset
            self("log_entries_lost", damage=recovered.damage, end_offset=core.end_offset, lost_end_offset=lost_to)
        elif log.torn_bytes:
            self("log_cut", path=log.path, torn_bytes=log.torn_bytes, end_offset=log.end_offset)
        if recovered.election.was_lost and core.epoch:
            self("quorum_state_lost", path=directory)
        start, end, entries = core.log.start.offset, core.end_offset, _entries(recovered.batches)
        self("log_recovered", start_offset=start, end_offset=end, epoch=core.epoch, entries=entries)
        self.voters(core.voters_offset_at(end), core.voters)

    def role(self, change: RoleChanged) -> None:
        cause = change.cause.value
        self("role_changed", role=change.role.value, epoch=change.epoch, leader=change.leader_id, cause=cause)
        if self._led:
            self("leader_resigned", epoch=change.epoch, cause=cause)
        self._led = change.role is Role.LEADER
        self._leader(change)
        if change.role is Role.PROSPECTIVE or change.cause is Cause.HANDED_OVER:
            self._election_cause = cause

    def _leader(self, change: RoleChanged) -> None:
        """Trace that the leader is lost, and once until there is one again, that elections fail."""
        if change.cause in _LOSSES and self._leader_id is not None:
            self("leader_lost", epoch=change.epoch, leader=self._leader_id, cause=change.cause.value)
        if change.role in (Role.LEADER, Role.FOLLOWER):
            self._lost_elections = 0
        elif change.cause is Cause.PRE_VOTE_LOST:
            self._lost_elections += 1
            if self._lost_elections == _LOST_ELECTIONS:
                self("majority_unreachable", epoch=change.epoch)
        self._leader_id = change.leader_id

    def elected(self, epoch: int) -> None:
        """This node leads in `epoch` and has committed an entry of it."""
        self("leader_elected", epoch=epoch, cause=self._election_cause)

    def refused(self, refused: RefusedEpoch | RefusedTruncation) -> None:
        """Trace a refusal once per source, for each own epoch or high watermark, because a broken peer repeats its
        messages.
        """
        about = refused.own if isinstance(refused, RefusedEpoch) else refused.high_watermark
        if self._refused.get((refused.source, type(refused))) == about:
            return
        self._refused[refused.source, type(refused)] = about
        if isinstance(refused, RefusedEpoch):
            self("implausible_epoch", epoch=refused.own, told=refused.told, source=refused.source)
        else:
            self("unsafe_truncation", end_offset=refused.end_offset, committed=about, source=refused.source)

    def vote_synced(self, state: ElectionState) -> None:
        voted_for = None if state.voted_for is None else state.voted_for.node_id
        self("vote_synced", epoch=state.epoch, voted_for=voted_for)

    def written(self, end_offset: int, batches: Sequence[Batch]) -> None:
        self("log_written", end_offset=end_offset, entries=_entries(batches))
        for batch in batches:
            if batch.kind is BatchKind.VOTERS:
                self.voters(batch.base_offset, decode_voters(batch.records[0]))

    def truncated(self, core: Core, end_offset: int) -> None:
        self("log_truncated", end_offset=end_offset)
        if self.voters_offset >= end_offset:
            self.voters(core.voters_offset_at(end_offset), core.voters_at(end_offset))

    def installed(self, place: OffsetAndEpoch, voters: VoterSet) -> None:
        self("snapshot_installed", end_offset=place.offset, epoch=place.epoch)
        self.voters(place.offset - 1, voters)

    def voters(self, offset: int, voters: VoterSet) -> None:
        self.voters_offset = offset
        keys = tuple((voter.node_id, voter.key.directory_id) for voter in voters.voters)
        self("voters_changed", offset=offset, voters=keys)
        voter = voters.get(self._me.node_id)
        if voter is not None and not voter.key.matches(self._me):
            self("voter_directory_differs", voter=voter.key.directory_id, mine=self._me.directory_id)


def _entries(batches: Sequence[Batch]) -> tuple[tuple[int, int, int], ...]:
    return tuple((batch.base_offset, batch.last_offset + 1, batch.epoch) for batch in batches)
