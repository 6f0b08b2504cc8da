"""The state of one replica, and the operations that change it. The other modules of the package hold the rules."""

from collections.abc import Callable, Sequence
from math import inf

from kraft.core.config import QuorumConfig
from kraft.core.control_records import decode_voters
from kraft.core.effects import (
    Answer,
    AppendLog,
    Committed,
    DiscardSnapshot,
    Effect,
    ElectionState,
    PersistElection,
    RoleChanged,
    Send,
    TruncateLog,
)
from kraft.core.log_state import LogState, OffsetAndEpoch
from kraft.core.messages import CurrentLeader, Request, Response
from kraft.core.plausible_epochs import EPOCH_END
from kraft.core.request_manager import RequestManager
from kraft.core.roles import Follower, Leader, RoleState, Unattached
from kraft.core.transitions import Cause, IllegalTransition, next_role
from kraft.core.voters import ReplicaKey, Voter, VoterSet, VoterSetHistory
from kraft.replicated_log import Batch, BatchKind


class Replica:
    """`random` returns numbers in [0, 1). `effects` collects the effects of the current step."""

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
        self.config = config
        self.me: ReplicaKey = config.me
        self.election = election
        self.log = log
        self.voter_history = voters
        self.high_watermark = log.start.offset
        self.now_ms = now_ms
        self.requests = RequestManager()
        self.wall_s = wall_s
        self.effects: list[Effect] = []
        self.lost_elections = 0
        self.is_leaving = False
        # True after an unknown peer has claimed to lead or has asked for a vote: see `kraft.core.unknown_peers`.
        self.heard_unknown_peer = False
        # The fetched snapshot that the driver is installing. The log must not be read or changed until that is done.
        self.installing: OffsetAndEpoch | None = None
        self._random = random
        self.state: RoleState = Unattached(inf)

    # State

    @property
    def voters(self) -> VoterSet:
        return self.voter_history.latest

    @property
    def is_voter(self) -> bool:
        return self.voters.contains(self.me)

    @property
    def is_electable(self) -> bool:
        """True for a voter, also while its removal is in the log and not committed, unless the replica is leaving.

        False while the log lacks entries that this replica has acknowledged, of which some may be committed.

        A leader that removes itself may fail while no other replica has the entry. Then it must be elected again, with
        the votes of the others, to replicate that entry (Raft's dissertation, section 4.2.2).
        """
        if self.installing is not None or self.is_leaving or self.epoch + 1 >= EPOCH_END:
            return False
        if self.log.lost_end is not None:
            return False
        return self.is_voter or self._is_being_removed

    @property
    def _is_being_removed(self) -> bool:
        """True if an uncommitted voter set removes this replica, with its node id and its directory id.

        False if the voter set names this node with another directory id: this replica has lost that voter's disk, and
        with it the vote and the acknowledged entries.
        """
        history = self.voter_history
        if history.latest_offset < self.high_watermark or self.voters.get(self.me.node_id) is not None:
            return False
        before = history.at(history.latest_offset).get(self.me.node_id)
        return before is not None and before.key == self.me

    def outdated_voter(self) -> Voter | None:
        """This replica as a voter, if the voter set lacks its directory id or has another address; else None."""
        named = self.voters.get(self.me.node_id)
        if named is None or not named.key.matches(self.me):
            return None
        directory_id = self.me.directory_id or named.key.directory_id
        address = self.config.my_address or named.address
        if named.key.directory_id == directory_id and named.address == address:
            return None
        return Voter(ReplicaKey(self.me.node_id, directory_id), address)

    @property
    def epoch(self) -> int:
        return self.election.epoch

    @property
    def leader_id(self) -> int | None:
        if isinstance(self.state, Leader):
            return self.me.node_id
        return self.state.leader_id if isinstance(self.state, Follower) else None

    @property
    def current_leader(self) -> CurrentLeader:
        """The epoch and leader that every response carries."""
        if isinstance(self.state, Leader):
            return CurrentLeader(self.epoch, self.me.node_id, self.config.my_address)
        if isinstance(self.state, Follower):
            return CurrentLeader(self.epoch, self.state.leader_id, self.state.leader_address)
        return CurrentLeader(self.epoch)

    def other_voters(self) -> list[Voter]:
        return [voter for voter in self.voters.voters if voter.node_id != self.me.node_id]

    def random_election_timeout_ms(self) -> float:
        return self.config.election_timeout_ms * (1 + self._random())

    def random_fetch_timeout_ms(self) -> float:
        """The fetch timeout plus up to 10 %, so that followers of a lost leader do not all start a pre-vote at once."""
        return self.config.fetch_timeout_ms * (1 + 0.1 * self._random())

    def election_backoff_ms(self, attempts: int) -> float:
        """A random backoff that grows with the attempts, so that rival candidates stop colliding."""
        longest = min(self.config.election_backoff_max_ms, self.config.retry_backoff_ms * 2.0 ** min(attempts, 30))
        return longest * self._random()

    def pick(self, choices: Sequence[tuple[int, str]]) -> tuple[int, str]:
        return choices[int(self._random() * len(choices))]

    # Transitions

    def become(self, cause: Cause, state: RoleState) -> None:
        """Change the role. Raises IllegalTransition, and changes nothing, if the table lacks the transition."""
        if next_role(self.state.role, cause) is not state.role:
            raise IllegalTransition(f"{cause.name} does not lead to {state.role.name}")
        if isinstance(self.state, Follower):
            self.cancel_snapshot_download(self.state)
        self.state = state
        self.requests = RequestManager()
        self.effects.append(RoleChanged(state.role, self.epoch, self.leader_id, cause))

    def enter_epoch(self, epoch: int, voted_for: ReplicaKey | None = None) -> None:
        """Enter `epoch`, or vote in it. The state is persisted before any later message is sent."""
        assert epoch >= self.epoch, f"epoch {epoch} after {self.epoch}"
        assert epoch > self.epoch or self.election.voted_for in (None, voted_for), f"a second vote in epoch {epoch}"
        self.election = ElectionState(epoch, voted_for)
        match self.effects[-2:]:
            case [PersistElection(), RoleChanged()]:
                del self.effects[-2]  # nothing was sent in between, so one sync covers the epoch and the vote
        self.effects.append(PersistElection(self.election))

    def cancel_snapshot_download(self, state: Follower) -> None:
        """Stop fetching a snapshot: the leader does not have it, or the leader has changed."""
        download, state.download = state.download, None
        if download is not None and download.position > 0:
            self.effects.append(DiscardSnapshot(download.snapshot))

    # Effects

    def answer(self, token: int, response: Response) -> None:
        self.effects.append(Answer(token, response))

    def send(self, destination: int, address: str, request: Request) -> None:
        self.requests.sent(destination, request)
        self.effects.append(Send(destination, address, request))

    def append(self, batches: Sequence[Batch]) -> None:
        """Append to the log. Voter sets in `batches` take effect at once."""
        for batch in batches:
            self.log.append(batch.base_offset, batch.last_offset, batch.epoch)
            if batch.kind is BatchKind.VOTERS:
                self.voter_history.append(batch.base_offset, decode_voters(batch.records[0]))
        self.effects.append(AppendLog(tuple(batches)))

    def truncate(self, end_offset: int) -> None:
        assert end_offset >= self.high_watermark, f"{end_offset} is below the commit at {self.high_watermark}"
        self.log.truncate(end_offset)
        self.voter_history.truncate(end_offset)
        self.effects.append(TruncateLog(end_offset))

    def commit(self, end_offset: int) -> bool:
        """Raise the high watermark to the last batch boundary up to `end_offset`. Returns False if it does not rise."""
        assert end_offset <= self.log.end_offset, f"commit to {end_offset}, the log ends at {self.log.end_offset}"
        end_offset = self.log.batch_boundary(end_offset)
        if end_offset <= self.high_watermark:
            return False
        self.high_watermark = end_offset
        self.effects.append(Committed(end_offset))
        return True
