"""The core of a Raft replica as a pure state machine, and the obligations of its driver.

A core has no clock, network, disk or source of randomness. The driver reports events (`kraft.core.events`) with the
time, and the core returns effects (`kraft.core.effects`). Raft's safety rules are in the core. They hold if the driver

1. performs effects one at a time, in the order in which the core returned them;
2. waits in `PersistElection` until the state is durable: a replica that forgets a vote after sending it may vote twice,
   and so elect two leaders in one epoch;
3. appends the batches of `AppendLog` to the log at once and in order, but may sync them later. It reports `LogSynced`
   with the log's end at the time when the sync began, and only then does the core count or acknowledge these entries.
   One sync may cover many appends. `TruncateLog` waits until no sync is running;
4. sends the response of every `Answer`, and reports exactly one `Responded` or `RequestFailed` for every `Send`, at the
   latest after the request timeout. A response is matched to the request that it answers, even if an equal request was
   sent on another connection;
5. steps the core with a `Tick` when `deadline_ms` has passed;
6. writes and syncs the recovered log again before it starts a core after a crash: after a failed sync, the page cache
   may hold data that can be read but is not on the disk.

Times are in milliseconds of a monotonic clock.
"""

from collections.abc import Callable

from kraft.core import elections, events, following, joining, leading, reconfiguration, unknown_peers
from kraft.core.config import QuorumConfig
from kraft.core.effects import Effect, ElectionState
from kraft.core.events import Event
from kraft.core.log_state import LogState
from kraft.core.messages import (
    AddVoterRequest,
    BeginEpochRequest,
    BeginEpochResponse,
    CurrentLeader,
    EndEpochRequest,
    EndEpochResponse,
    Error,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RemoveVoterRequest,
    Request,
    UpdateVoterRequest,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
)
from kraft.core.replica import Replica
from kraft.core.roles import Candidate, Follower, Leader, Prospective, Resigned, Unattached
from kraft.core.transitions import Role
from kraft.core.voters import ReplicaKey, VoterSet, VoterSetHistory


class Core:
    """One replica. `election`, `log` and `voters` are the recovered state. `random` returns numbers in [0, 1).

    `wall_s` returns the seconds since 1970, which only decide whether an epoch is plausible.
    """

    def __init__(
        self,
        config: QuorumConfig,
        random: Callable[[], float],
        election: ElectionState,
        log: LogState,
        voters: VoterSetHistory,
        now_ms: float,
        wall_s: Callable[[], float],
    ) -> None:
        if log.last_epoch > election.epoch:
            election = ElectionState(log.last_epoch)
        replica = self._replica = Replica(config, random, election, log, voters, now_ms, wall_s)
        # A replica that starts requests pre-votes soon: if there is a leader, the responses name it. A sole voter leads
        # at its first step: there is no other voter to ask.
        is_sole_voter = replica.is_voter and not replica.other_voters()
        replica.state = Unattached(now_ms if is_sole_voter else now_ms + replica.election_backoff_ms(1))

    def step(self, event: Event, now_ms: float) -> list[Effect]:
        """Handle `event` and all deadlines that have passed, and return the effects to perform."""
        replica = self._replica
        assert now_ms >= replica.now_ms, f"time went back from {replica.now_ms} to {now_ms}"
        replica.now_ms = now_ms
        self._handle(event)
        self._expire()
        self._send_due()
        effects, replica.effects = replica.effects, []
        return effects

    @property
    def deadline_ms(self) -> float:
        """The time of the next step at the latest; infinity if the core waits for nothing."""
        replica = self._replica
        pause_ms = replica.requests.next_retry_ms(replica.now_ms)
        if isinstance(replica.state, Leader):
            return min(pause_ms, leading.deadline_ms(replica, replica.state))
        return min(pause_ms, replica.state.deadline_ms)

    @property
    def role(self) -> Role:
        return self._replica.state.role

    @property
    def epoch(self) -> int:
        return self._replica.epoch

    @property
    def leader_id(self) -> int | None:
        return self._replica.leader_id

    @property
    def current_leader(self) -> CurrentLeader:
        """The current epoch and leader, with the leader's address."""
        return self._replica.current_leader

    @property
    def high_watermark(self) -> int:
        return self._replica.high_watermark

    @property
    def end_offset(self) -> int:
        return self._replica.log.end_offset

    @property
    def log(self) -> LogState:
        """The state of the log, to be read only."""
        return self._replica.log

    @property
    def election(self) -> ElectionState:
        return self._replica.election

    @property
    def voters(self) -> VoterSet:
        return self._replica.voters

    @property
    def is_voter(self) -> bool:
        return self._replica.is_voter

    @property
    def leader_state(self) -> Leader | None:
        """The leader's state, to be read only; None if this replica does not lead."""
        return self._replica.state if isinstance(self._replica.state, Leader) else None

    def names_voter(self, key: ReplicaKey) -> bool:
        """True if `key` is a voter in any voter set of the log, or in the initial one."""
        return self._replica.voter_history.names(key)

    def voters_at(self, end_offset: int) -> VoterSet:
        """The voters of a snapshot that ends at `end_offset`."""
        return self._replica.voter_history.at(end_offset)

    def voters_offset_at(self, end_offset: int) -> int:
        """The offset of the latest voter set below `end_offset`; -1 without one."""
        return self._replica.voter_history.offset_at(end_offset)

    def _handle(self, event: Event) -> None:
        replica = self._replica
        match event:
            case events.Tick():
                pass
            case events.Received():
                self._received(event.token, event.request, event.is_unknown_peer)
            case events.Responded():
                self._responded(event)
            case events.RequestFailed():
                self._request_failed(event.destination, event.request)
            case events.ConnectionReset():
                if isinstance(replica.state, Follower) and replica.state.leader_id == event.node_id:
                    following.on_leader_lost(replica, replica.state)
            case events.LogSynced():
                replica.log.synced(event.end)
                if isinstance(replica.state, Leader):
                    leading.advance_high_watermark(replica, replica.state)
            case events.Append():
                assert isinstance(replica.state, Leader), "only a leader appends"
                leading.append(replica, replica.state, event.records, event.append_time_ms)
            case events.SnapshotTaken():
                following.on_snapshot_taken(replica, event.snapshot)
            case events.SnapshotInstalled():
                following.on_snapshot_installed(replica, event.snapshot, event.voters)
            case events.SnapshotRefused():
                following.on_snapshot_refused(replica, event.snapshot)
            case events.Leave():
                elections.leave(replica)

    def _received(self, token: int, request: Request, is_unknown_peer: bool) -> None:
        replica = self._replica
        match request:
            case _ if is_unknown_peer and not isinstance(request, FetchRequest | FetchSnapshotRequest):
                unknown_peers.refuse(replica, token, request)
            case VoteRequest():
                elections.on_vote(replica, token, request)
            case BeginEpochRequest():
                elections.on_begin_epoch(replica, token, request)
            case EndEpochRequest():
                elections.on_end_epoch(replica, token, request)
            case FetchRequest() | FetchSnapshotRequest():
                self._received_fetch(token, request)
            case _:
                if isinstance(replica.state, Leader):
                    reconfiguration.on_voter_change(replica, replica.state, token, request)
                else:
                    replica.answer(token, VoterChangeResponse(replica.current_leader, Error.NOT_LEADER_OR_FOLLOWER))

    def _received_fetch(self, token: int, request: FetchRequest | FetchSnapshotRequest) -> None:
        """Answer with an error unless this replica leads in the epoch of the Fetch.

        A Fetch of a voter can raise this replica's epoch, a Fetch of an observer cannot: an observer must not depose a
        leader. Former voters count as voters here. A voter that was partitioned may have raised its epoch in elections
        before it was removed, and no leader of a lower epoch can serve it.
        """
        replica = self._replica
        if replica.voter_history.names(request.replica):
            elections.enter_higher_epoch(replica, request.replica.node_id, request.epoch)
        state = replica.state
        error = Error.NONE if isinstance(state, Leader) else Error.NOT_LEADER_OR_FOLLOWER
        if request.epoch < replica.epoch:
            error = Error.FENCED_LEADER_EPOCH
        elif request.epoch > replica.epoch:
            error = Error.UNKNOWN_LEADER_EPOCH
        if error is Error.NONE:
            assert isinstance(state, Leader)
            if isinstance(request, FetchRequest):
                leading.on_fetch(replica, state, token, request)
            else:
                leading.on_fetch_snapshot(replica, state, token, request)
        elif isinstance(request, FetchRequest):
            replica.answer(token, FetchResponse(replica.current_leader, replica.high_watermark, error))
        else:
            replica.answer(token, FetchSnapshotResponse(replica.current_leader, error=error))

    def _responded(self, event: events.Responded) -> None:
        replica = self._replica
        source, request, response = event.destination, event.request, event.response
        elections.update_leader(replica, source, response.current_leader)
        if not replica.requests.complete(source, request):
            return
        match request, response:
            case VoteRequest(), VoteResponse():
                elections.on_vote_response(replica, source, request, response)
            case FetchRequest(), FetchResponse():
                following.on_fetch_response(replica, source, request, response)
            case FetchSnapshotRequest(), FetchSnapshotResponse():
                following.on_snapshot_response(replica, source, request, response)
            case EndEpochRequest(), EndEpochResponse():
                if isinstance(replica.state, Resigned):
                    replica.state.acknowledged[source] = True
            case BeginEpochRequest(), BeginEpochResponse():
                reconfiguration.on_begin_epoch_response(replica, request, response)
            case UpdateVoterRequest(), VoterChangeResponse():
                reconfiguration.on_update_response(replica, source)
            case AddVoterRequest() | RemoveVoterRequest(), VoterChangeResponse():
                joining.on_join_request_ended(replica, source, request)
            case _:
                raise AssertionError(f"{type(response).__name__} in answer to {type(request).__name__}")

    def _request_failed(self, destination: int, request: Request) -> None:
        replica = self._replica
        if replica.requests.complete(destination, request):
            replica.requests.back_off(destination, type(request), replica.now_ms + replica.config.retry_backoff_ms)
            match request:
                case VoteRequest():
                    elections.on_vote_failed(replica, destination)
                case BeginEpochRequest():
                    reconfiguration.on_begin_epoch_failed(replica, request)
                case AddVoterRequest() | RemoveVoterRequest():
                    joining.on_join_request_ended(replica, destination, request)

    def _expire(self) -> None:
        replica = self._replica
        if isinstance(replica.state, Leader):
            leading.expire(replica, replica.state)
        elif replica.state.deadline_ms <= replica.now_ms:
            elections.expire(replica)

    def _send_due(self) -> None:
        replica = self._replica
        state = replica.state
        if isinstance(state, Leader):
            reconfiguration.append_due_change(replica, state)
        match replica.state:
            case Leader() as leader:
                leading.send_begin_epoch_requests(replica, leader)
                reconfiguration.announce_to_new_voter(replica, leader)
            case Prospective() | Candidate() as standing:
                elections.send_vote_requests(replica, standing)
            case Follower() as follower:
                following.send_fetch(replica, follower)
                reconfiguration.send_update_voter_request(replica, follower)
                joining.send_join_request(replica, follower)
            case Resigned() as resigned:
                elections.send_end_epoch_requests(replica, resigned)
            case Unattached() if following.has_to_find_leader(replica):
                following.send_fetch_without_leader(replica)
        unknown_peers.send_fetch_to_bootstrap_server(replica)
