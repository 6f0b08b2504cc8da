"""Bugs to plant into the quorum's rules and files; see `planted_bugs`."""

from typing import Any

import attrs

from kraft import recovery
from kraft.core import LogState, OffsetAndEpoch, ReplicaKey, Voter, elections, events, joining, leading, reconfiguration
from kraft.core.effects import RefusedEpoch
from kraft.core.log_state import Match
from kraft.core.messages import AddVoterRequest
from kraft.core.replica import Replica
from kraft.core.roles import Leader, Prospective
from kraft.core.transitions import Cause
from kraft.env import File
from kraft.log import durable_log, frame
from kraft.log.durable_log import DurableLog
from kraft.log.quorum_state_file import QuorumStateFile
from kraft.log.slots import SlotFile
from kraft.peers import Peers
from kraft.raft_node import RaftNode
from tests.support.planted_bugs import PatchedFunction, always, does_nothing


@attrs.frozen
class _UnsyncedFile:
    """A file whose `sync` does nothing."""

    _file: File

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    async def sync(self) -> None:
        """Return without making the data durable."""


def _skip_sync(right: Any) -> Any:
    """Run a method of an object that writes to its `_file`, without the sync."""

    async def wrong(owner: Any, *args: Any) -> None:
        file, owner._file = owner._file, _UnsyncedFile(owner._file)
        try:
            await right(owner, *args)
        finally:
            owner._file = file

    return wrong


def _compare_offsets_only(match: Any) -> Any:
    def wrong(log: LogState, end: OffsetAndEpoch) -> tuple[Match, OffsetAndEpoch]:
        if end.offset < log.start.offset:
            return Match.BELOW_START, log.start
        return (Match.SAME, end) if end.offset <= log.end_offset else (Match.DIVERGED, log.end)

    return wrong


def _ignore_pre_votes(check_votes: Any) -> Any:
    def wrong(replica: Replica) -> None:
        if isinstance(replica.state, Prospective):
            elections.start_election(replica, Cause.PRE_VOTE_WON)
        else:
            check_votes(replica)

    return wrong


def _store_no_vote(enter_epoch: Any) -> Any:
    """Do not store a vote for another replica. A candidate's own vote is stored, because it enters a higher epoch."""

    def wrong(replica: Replica, epoch: int, voted_for: ReplicaKey | None = None) -> None:
        if epoch > replica.epoch:
            enter_epoch(replica, epoch, voted_for)

    return wrong


def _refuse_later_epochs(enter_higher_epoch: Any) -> Any:
    def wrong(replica: Replica, source: int, epoch: int) -> bool:
        if epoch > replica.epoch + 1:
            replica.effects.append(RefusedEpoch(source, replica.epoch, epoch))
            return False
        entered: bool = enter_higher_epoch(replica, source, epoch)
        return entered

    return wrong


def _assume_reachable(announce: Any) -> Any:
    def wrong(replica: Replica, leader: Leader) -> None:
        if leader.change is not None:
            leader.change.is_reachable = True
            reconfiguration.append_due_change(replica, leader)

    return wrong


def _never_remove(join_request: Any) -> Any:
    def wrong(replica: Replica) -> AddVoterRequest:
        return AddVoterRequest(Voter(replica.me, replica.config.my_address), 500, ack_when_committed=False)

    return wrong


def _compare_node_ids_only(matches: Any) -> Any:
    return lambda key, other: key.node_id == other.node_id


def _count_all_as_synced(step_and_perform: Any) -> Any:
    """Count entries as synced that were appended during the sync."""

    def wrong(node: RaftNode, event: Any) -> None:
        if isinstance(event, events.LogSynced):
            event = events.LogSynced(OffsetAndEpoch(node._log.end_offset, node._log.epoch))
        step_and_perform(node, event)

    return wrong


QUORUM_BUGS: dict[str, PatchedFunction] = {
    "votes are not synced": PatchedFunction(SlotFile, "sync", _skip_sync),
    "the log is not synced": PatchedFunction(DurableLog, "sync", _skip_sync),
    "entries are committed without a majority": PatchedFunction(leading, "reached_by_majority", lambda right: max),
    "entries of earlier epochs are committed": PatchedFunction(leading, "may_commit", always(True)),
    "the previous epoch is not checked": PatchedFunction(LogState, "match", _compare_offsets_only),
    "the recovered log is not written again": PatchedFunction(durable_log, "_rewrite", does_nothing),
    "checksums of the log are not checked": PatchedFunction(frame, "_is_intact", always(True)),
    "a voter counts before it has caught up": PatchedFunction(recovery, "_note_loss", does_nothing),
    "two voter changes at once": PatchedFunction(reconfiguration, "may_change", always(True)),
    "pre-votes are ignored": PatchedFunction(elections, "_check_votes", _ignore_pre_votes),
    "votes are granted to outdated logs": PatchedFunction(LogState, "is_candidate_up_to_date", always(True)),
    "two votes in one epoch": PatchedFunction(Replica, "enter_epoch", _store_no_vote),
    "only the next epoch is plausible": PatchedFunction(elections, "enter_higher_epoch", _refuse_later_epochs),
    "every epoch is plausible": PatchedFunction(elections, "is_plausible", always(True)),
    "unknown peers are trusted": PatchedFunction(Peers, "is_unknown_peer", always(False)),
    "new voters do not have to answer": PatchedFunction(reconfiguration, "announce_to_new_voter", _assume_reachable),
    "a replica does not remove its former directory": PatchedFunction(joining, "join_request", _never_remove),
    "voters add themselves again": PatchedFunction(joining, "is_to_join", always(True)),
    "directory ids are not compared": PatchedFunction(ReplicaKey, "matches", _compare_node_ids_only),
}

# Rules of the driver that only `tests/kraft/test_raft_node_planted_bugs.py` breaks.
DRIVER_BUGS: dict[str, PatchedFunction] = {
    "a vote that was read is not written again": PatchedFunction(QuorumStateFile, "_rewrite", does_nothing),
    "votes are granted before they are durable": PatchedFunction(QuorumStateFile, "save", does_nothing),
    "a sync counts for entries appended while it ran": PatchedFunction(
        RaftNode, "_step_and_perform", _count_all_as_synced
    ),
}
