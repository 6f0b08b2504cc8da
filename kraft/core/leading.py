"""The leader: it answers Fetches, advances the high watermark, and resigns if it loses its majority."""

from math import inf

from kraft.core.control_records import leader_change, voters_entry
from kraft.core.effects import AnswerEntries, AnswerSnapshot
from kraft.core.log_state import Match
from kraft.core.messages import (
    BeginEpochRequest,
    Error,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    VoterChangeResponse,
)
from kraft.core.quorum import reached_by_majority
from kraft.core.replica import Replica
from kraft.core.roles import Leader, Progress, Resigned, RoleState, WaitingFetch
from kraft.core.transitions import Cause
from kraft.core.voters import ReplicaKey
from kraft.replicated_log import Batch

# The leader removes an observer that has not fetched for this long (KRaft's observer session timeout).
OBSERVER_TIMEOUT_MS = 300_000
# Unknown nodes may fetch too. The leader answers observers beyond this number without keeping their progress.
OBSERVERS_MAX = 1_000


def start_leading(replica: Replica, granting: list[int]) -> None:
    """Append the leader-change entry, and the voter set if the log does not have one yet."""
    leader = Leader(replica.log.end_offset, replica.now_ms)
    leader.track_voters(replica.voters, replica.me)
    replica.become(Cause.VOTES_WON, leader)
    replica.lost_elections = 0
    entries = [leader_change(leader.start_offset, replica.epoch, replica.me.node_id, granting)]
    if replica.voter_history.latest_offset < 0:
        mine = replica.outdated_voter()
        voters = replica.voters if mine is None else replica.voters.with_voter(mine)
        entries.append(voters_entry(leader.start_offset + 1, replica.epoch, voters))
    replica.append(entries)


def append(replica: Replica, leader: Leader, records: tuple[bytes, ...], append_time_ms: int) -> None:
    replica.append([Batch(replica.log.end_offset, replica.epoch, append_time_ms, records)])
    complete_waiting_fetches(replica, leader)


def on_fetch(replica: Replica, leader: Leader, token: int, request: FetchRequest) -> None:
    """KIP-595: a valid Fetch acknowledges all entries below its offset. Others are answered where the logs diverge."""
    _complete_older_fetch(replica, leader, request.replica)
    match, place = replica.log.match(request.log_end)
    progress = _record_contact(replica, leader, request.replica)
    if match is Match.SAME:
        _acknowledge(replica, progress, request.log_end.offset)
        leader.waiting_fetches[request.replica] = WaitingFetch(
            token, request, replica.now_ms + replica.config.fetch_max_wait_ms
        )
        advance_high_watermark(replica, leader)
        complete_waiting_fetches(replica, leader)
        return
    response = FetchResponse(replica.current_leader, replica.high_watermark)
    if match is Match.BELOW_START:
        replica.answer(token, FetchResponse(response.current_leader, response.high_watermark, snapshot=place))
    else:
        replica.answer(token, FetchResponse(response.current_leader, response.high_watermark, diverging=place))


def on_fetch_snapshot(replica: Replica, leader: Leader, token: int, request: FetchSnapshotRequest) -> None:
    """Answer with a part of the snapshot. FetchSnapshot counts as contact for check-quorum, like Fetch (KIP-630)."""
    _record_contact(replica, leader, request.replica)
    replica.effects.append(AnswerSnapshot(token, request, replica.current_leader))


def advance_high_watermark(replica: Replica, leader: Leader) -> None:
    """Advance the high watermark to the offset that a majority holds, if `may_commit` allows it."""
    ends = [float(progress.end_offset) for progress in leader.voters.values()]
    if replica.is_voter:
        ends.append(replica.log.durable_end_offset)
    end_offset = int(reached_by_majority(ends))
    if not may_commit(leader, end_offset) or not replica.commit(end_offset):
        return
    complete_waiting_fetches(replica, leader)
    _finish_change(replica, leader)
    if not replica.is_voter and not is_change_uncommitted(replica):
        resign(replica, leader)


def may_commit(leader: Leader, end_offset: int) -> bool:
    """True if the last entry below `end_offset` is of the leader's own epoch.

    A leader counts replicas only for entries of its own epoch. Entries of earlier epochs are committed with them: an
    older entry on a majority can still be overwritten (Raft's paper, section 5.4.2).
    """
    return end_offset > leader.start_offset


def is_change_uncommitted(replica: Replica) -> bool:
    return replica.voter_history.latest_offset >= replica.high_watermark


def complete_waiting_fetches(replica: Replica, leader: Leader) -> None:
    """Answer the waiting Fetches that have new entries, a new high watermark or an expired deadline."""
    for key, waiting in list(leader.waiting_fetches.items()):
        request = waiting.request
        news = request.log_end.offset < replica.log.end_offset or request.high_watermark < replica.high_watermark
        if news or waiting.deadline_ms <= replica.now_ms:
            del leader.waiting_fetches[key]
            _answer_entries(replica, waiting)


def resign(replica: Replica, leader: Leader, cause: Cause = Cause.RESIGNATION) -> None:
    """Stop leading. The preferred successors are the voters, in descending order of their log end offsets."""
    by_end = sorted(leader.voters.items(), key=lambda item: (-item[1].end_offset, item[0]))
    successors = tuple(node_id for node_id, _ in by_end)
    deadline_ms = replica.now_ms + replica.random_election_timeout_ms()
    replica.become(cause, Resigned(deadline_ms, successors))
    fail_pending_requests(replica, leader)


def fail_pending_requests(replica: Replica, former: RoleState) -> None:
    """Answer the waiting Fetches and the pending voter change of a former leader with an error."""
    if not isinstance(former, Leader):
        return
    for waiting in former.waiting_fetches.values():
        not_leader = FetchResponse(replica.current_leader, replica.high_watermark, Error.NOT_LEADER_OR_FOLLOWER)
        replica.answer(waiting.token, not_leader)
    if former.change is not None:
        response = VoterChangeResponse(replica.current_leader, Error.NOT_LEADER_OR_FOLLOWER, "The leader changed")
        replica.answer(former.change.token, response)


def expire(replica: Replica, leader: Leader) -> None:
    """Answer expired Fetches, time out the voter change, and resign if the majority has been silent too long."""
    complete_waiting_fetches(replica, leader)
    change = leader.change
    if change is not None and change.deadline_ms <= replica.now_ms:
        leader.change = None
        timed_out = VoterChangeResponse(
            replica.current_leader, Error.REQUEST_TIMED_OUT, "The change is not committed in time"
        )
        replica.answer(change.token, timed_out)
    if quorum_lost_ms(replica, leader) <= replica.now_ms:
        resign(replica, leader, Cause.MAJORITY_LOST)


def send_begin_epoch_requests(replica: Replica, leader: Leader) -> None:
    """Send BeginEpoch to the voters that do not fetch."""
    for voter in replica.other_voters():
        progress = leader.voters.get(voter.node_id)
        due = progress is not None and _begin_epoch_due_ms(replica, progress) <= replica.now_ms
        if (
            progress is None
            or not due
            or not replica.requests.may_send(voter.node_id, BeginEpochRequest, replica.now_ms)
        ):
            continue
        progress.begin_epoch_ms = replica.now_ms
        begin = BeginEpochRequest(replica.epoch, replica.me.node_id, replica.config.my_address, voter.key)
        replica.send(voter.node_id, voter.address, begin)


def deadline_ms(replica: Replica, leader: Leader) -> float:
    deadlines = [waiting.deadline_ms for waiting in leader.waiting_fetches.values()]
    if leader.change is not None:
        deadlines.append(leader.change.deadline_ms)
    for progress in leader.voters.values():
        if replica.requests.may_send(progress.key.node_id, BeginEpochRequest, replica.now_ms):
            deadlines.append(_begin_epoch_due_ms(replica, progress))
    return min(*deadlines, quorum_lost_ms(replica, leader), inf)


def quorum_lost_ms(replica: Replica, leader: Leader) -> float:
    """The time at which the leader resigns, unless a majority fetches until then (check-quorum).

    Infinity if the leader alone is a majority.
    """
    if not leader.voters:
        return inf
    heard = [progress.heard_ms for progress in leader.voters.values()]
    if replica.is_voter:
        heard.append(inf)
    return reached_by_majority(heard) + replica.config.check_quorum_timeout_ms


def _begin_epoch_due_ms(replica: Replica, progress: Progress) -> float:
    """The time of the next BeginEpoch: at once if the voter never fetched in this epoch, else after an interval."""
    heard_ms = progress.heard_ms if progress.end_offset >= 0 else -inf
    return max(progress.begin_epoch_ms, heard_ms) + replica.config.begin_epoch_interval_ms


def _record_contact(replica: Replica, leader: Leader, key: ReplicaKey) -> Progress:
    """Record a Fetch of `key`, and return its progress.

    A replica with a voter's node id and another directory id is an observer (KIP-853).
    """
    progress = leader.voters.get(key.node_id)
    if progress is None or not progress.key.matches(key):
        progress = leader.observers.get(key)
    if progress is None:
        oldest_ms = replica.now_ms - OBSERVER_TIMEOUT_MS
        kept = {known: seen for known, seen in leader.observers.items() if seen.heard_ms > oldest_ms}
        leader.observers = kept
        progress = Progress(key, replica.now_ms)
        if len(kept) < OBSERVERS_MAX:
            leader.observers[key] = progress
        leader.remove_former_directories()
    progress.heard_ms = replica.now_ms
    return progress


def _acknowledge(replica: Replica, progress: Progress, end_offset: int) -> None:
    progress.end_offset = end_offset
    if end_offset >= replica.log.end_offset:
        progress.caught_up_ms = replica.now_ms
    elif end_offset >= progress.leader_end_offset >= 0:
        progress.caught_up_ms = max(progress.caught_up_ms, progress.fetched_ms)
    progress.leader_end_offset = replica.log.end_offset
    progress.fetched_ms = replica.now_ms


def _complete_older_fetch(replica: Replica, leader: Leader, key: ReplicaKey) -> None:
    """Answer an earlier Fetch of the same replica without entries: the replica no longer waits for it."""
    if (waiting := leader.waiting_fetches.pop(key, None)) is not None:
        replica.answer(waiting.token, FetchResponse(replica.current_leader, replica.high_watermark))


def _answer_entries(replica: Replica, waiting: WaitingFetch) -> None:
    response = FetchResponse(replica.current_leader, replica.high_watermark)
    replica.effects.append(AnswerEntries(waiting.token, response, waiting.request.log_end.offset))


def _finish_change(replica: Replica, leader: Leader) -> None:
    change = leader.change
    if change is not None and change.offset is not None and change.offset < replica.high_watermark:
        leader.change = None
        replica.answer(change.token, VoterChangeResponse(replica.current_leader))
