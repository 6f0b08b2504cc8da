"""What a leader does: answers Fetches, counts how far the voters have come, and resigns without a majority."""

from math import inf

from kraft.core.control import leader_change, voters_entry
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
from kraft.core.roles import Leader, Parked, Progress, Resigned, RoleState
from kraft.core.transitions import Cause
from kraft.core.voters import ReplicaKey
from kraft.replicated_log import Batch

# An observer that has not fetched for so long is forgotten (KRaft's observer session timeout).
OBSERVER_TIMEOUT_MS = 300_000
# Nodes that nobody knows may fetch too; beyond so many, a new one is answered without being kept in mind.
OBSERVERS_MAX = 1_000


def start_leading(replica: Replica, granting: list[int]) -> None:
    """The first entry says who leads; the voters follow where the log does not name them yet."""
    leader = Leader(replica.log.end_offset, replica.now_ms)
    leader.follow(replica.voters, replica.me)
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
    release_news(replica, leader)


def on_fetch(replica: Replica, leader: Leader, token: int, request: FetchRequest) -> None:
    """KIP-595: a valid Fetch acknowledges all below its offset; an invalid one learns where to truncate to."""
    _release_older(replica, leader, request.replica)
    match, place = replica.log.match(request.log_end)
    progress = _heard(replica, leader, request.replica)
    if match is Match.SAME:
        _acknowledge(replica, progress, request.log_end.offset)
        leader.parked[request.replica] = Parked(token, request, replica.now_ms + replica.config.fetch_max_wait_ms)
        advance(replica, leader)
        release_news(replica, leader)
        return
    response = FetchResponse(replica.current_leader, replica.high_watermark)
    if match is Match.BELOW_START:
        replica.answer(token, FetchResponse(response.current_leader, response.high_watermark, snapshot=place))
    else:
        replica.answer(token, FetchResponse(response.current_leader, response.high_watermark, diverging=place))


def on_fetch_snapshot(replica: Replica, leader: Leader, token: int, request: FetchSnapshotRequest) -> None:
    """Who downloads a snapshot is alive, so it counts for check-quorum (KIP-630)."""
    _heard(replica, leader, request.replica)
    replica.effects.append(AnswerSnapshot(token, request, replica.current_leader))


def advance(replica: Replica, leader: Leader) -> None:
    """Commit what a majority holds, but by counting only entries of the own epoch (Raft's paper, section 5.4.2)."""
    ends = [float(progress.end_offset) for progress in leader.voters.values()]
    if replica.is_voter:
        ends.append(replica.log.durable_end_offset)
    end_offset = int(reached_by_majority(ends))
    if not may_commit(leader, end_offset) or not replica.commit(end_offset):
        return
    release_news(replica, leader)
    _finish_change(replica, leader)
    if not replica.is_voter and not is_change_uncommitted(replica):
        resign(replica, leader)


def may_commit(leader: Leader, end_offset: int) -> bool:
    """Whether the entry before `end_offset` is one of the leader's own epoch."""
    return end_offset > leader.start_offset


def is_change_uncommitted(replica: Replica) -> bool:
    return replica.voter_history.latest_offset >= replica.high_watermark


def release_news(replica: Replica, leader: Leader) -> None:
    """Answer the Fetches that were held for want of news."""
    for key, parked in list(leader.parked.items()):
        request = parked.request
        news = request.log_end.offset < replica.log.end_offset or request.high_watermark < replica.high_watermark
        if news or parked.deadline_ms <= replica.now_ms:
            del leader.parked[key]
            _answer_entries(replica, parked)


def resign(replica: Replica, leader: Leader) -> None:
    """Stop leading without knowing who comes next; those with the longest logs should."""
    by_end = sorted(leader.voters.items(), key=lambda item: (-item[1].end_offset, item[0]))
    successors = tuple(node_id for node_id, _ in by_end)
    deadline_ms = replica.now_ms + replica.random_election_timeout_ms()
    replica.become(Cause.RESIGNATION, Resigned(deadline_ms, successors))
    abandon(replica, leader)


def abandon(replica: Replica, former: RoleState) -> None:
    """Answer all who wait for one who has ceased to lead."""
    if not isinstance(former, Leader):
        return
    for parked in former.parked.values():
        not_leader = FetchResponse(replica.current_leader, replica.high_watermark, Error.NOT_LEADER_OR_FOLLOWER)
        replica.answer(parked.token, not_leader)
    if former.change is not None:
        response = VoterChangeResponse(replica.current_leader, Error.NOT_LEADER_OR_FOLLOWER, "The leader changed")
        replica.answer(former.change.token, response)


def expire(replica: Replica, leader: Leader) -> None:
    """What time brings: held Fetches are answered, a change of voters may wait no longer, the majority may be gone."""
    release_news(replica, leader)
    change = leader.change
    if change is not None and change.deadline_ms <= replica.now_ms:
        leader.change = None
        timed_out = VoterChangeResponse(
            replica.current_leader, Error.REQUEST_TIMED_OUT, "The change is not committed in time"
        )
        replica.answer(change.token, timed_out)
    if quorum_lost_ms(replica, leader) <= replica.now_ms:
        resign(replica, leader)


def announce(replica: Replica, leader: Leader) -> None:
    """Tell the voters that do not fetch who leads."""
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
    waiting = [parked.deadline_ms for parked in leader.parked.values()]
    if leader.change is not None:
        waiting.append(leader.change.deadline_ms)
    for progress in leader.voters.values():
        if replica.requests.may_send(progress.key.node_id, BeginEpochRequest, replica.now_ms):
            waiting.append(_begin_epoch_due_ms(replica, progress))
    return min(*waiting, quorum_lost_ms(replica, leader), inf)


def quorum_lost_ms(replica: Replica, leader: Leader) -> float:
    """When the leader has gone too long without Fetches from a majority (check-quorum); never, if it is that alone."""
    if not leader.voters:
        return inf
    heard = [progress.heard_ms for progress in leader.voters.values()]
    if replica.is_voter:
        heard.append(inf)
    return reached_by_majority(heard) + replica.config.check_quorum_timeout_ms


def _begin_epoch_due_ms(replica: Replica, progress: Progress) -> float:
    """At once to a voter that never fetched in this epoch, then whenever it falls silent."""
    heard_ms = progress.heard_ms if progress.end_offset >= 0 else -inf
    return max(progress.begin_epoch_ms, heard_ms) + replica.config.begin_epoch_interval_ms


def _heard(replica: Replica, leader: Leader, key: ReplicaKey) -> Progress:
    """A voter by its id counts as one only from the directory that the voter set names (KIP-853)."""
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
        leader.forget_former_disks()
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


def _release_older(replica: Replica, leader: Leader, key: ReplicaKey) -> None:
    """A replica that asks again has given up its question before."""
    if (parked := leader.parked.pop(key, None)) is not None:
        replica.answer(parked.token, FetchResponse(replica.current_leader, replica.high_watermark))


def _answer_entries(replica: Replica, parked: Parked) -> None:
    response = FetchResponse(replica.current_leader, replica.high_watermark)
    replica.effects.append(AnswerEntries(parked.token, response, parked.request.log_end.offset))


def _finish_change(replica: Replica, leader: Leader) -> None:
    change = leader.change
    if change is not None and change.offset is not None and change.offset < replica.high_watermark:
        leader.change = None
        replica.answer(change.token, VoterChangeResponse(replica.current_leader))
