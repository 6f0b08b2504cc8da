"""One Raft core, to which a test passes each event."""

from kraft.core import (
    Core,
    ElectionState,
    LogState,
    OffsetAndEpoch,
    QuorumConfig,
    ReplicaKey,
    Role,
    Voter,
    VoterSet,
    VoterSetHistory,
)
from kraft.core import effects as todo
from kraft.core import events as happened
from kraft.core import messages as said
from kraft.core.messages import CurrentLeader
from tests.support.directory_ids import directory_id

THREE = VoterSet(
    tuple(Voter(ReplicaKey(node_id, directory_id(f"d{node_id}")), f"host{node_id}:1") for node_id in (1, 2, 3))
)
# The time of every replica's wall clock.
WALL_S = 1_700_000_000.0
KEYS = {node_id: ReplicaKey(node_id, directory_id(f"d{node_id}")) for node_id in range(1, 6)}


class SingleCore:
    """Node 1 of three voters, whose log has a batch of one record for each of `epochs`."""

    def __init__(
        self,
        *epochs: int,
        election: ElectionState | None = None,
        voters: int = 3,
        named: Voter | None = None,
        config: QuorumConfig | None = None,
    ) -> None:
        log = LogState()
        for offset, epoch in enumerate(epochs):
            log.append(offset, offset, epoch)
        log.synced(log.end)
        initial = VoterSet(tuple(Voter(KEYS[node_id], f"host{node_id}:1") for node_id in range(1, voters + 1)))
        if named is not None:
            initial = initial.with_voter(named)
        config = config or QuorumConfig(KEYS[1], "host1:1")
        election = election or ElectionState(log.last_epoch)
        self.core = Core(config, lambda: 0.5, election, log, VoterSetHistory(initial), 0.0, lambda: WALL_S)
        self.now_ms = 0.0
        self.tokens = 0

    def step(self, event: happened.Event, wait_ms: float = 0.0) -> list[todo.Effect]:
        self.now_ms += wait_ms
        return self.core.step(event, self.now_ms)

    def ask(self, request: said.Request) -> list[todo.Effect]:
        self.tokens += 1
        return self.step(happened.Received(self.tokens, request))

    def answer_to(self, request: said.Request) -> said.Response:
        (answer,) = [effect for effect in self.ask(request) if isinstance(effect, todo.Answer)]
        return answer.response

    def time_out(self) -> list[said.VoteRequest]:
        effects = self.step(happened.Tick(), self.core.deadline_ms - self.now_ms)
        return [sent for sent in sends(effects) if isinstance(sent, said.VoteRequest)]

    def elected(self) -> "SingleCore":
        """Let the node win an election with the vote of node 2."""
        (pre_vote, _) = self.time_out()
        known = CurrentLeader(self.core.epoch)
        effects = self.step(happened.Responded(2, pre_vote, said.VoteResponse(known, granted=True)))
        vote = sends(effects)[0]
        self.step(happened.Responded(2, vote, said.VoteResponse(CurrentLeader(self.core.epoch), granted=True)))
        assert self.core.role is Role.LEADER
        return self

    def sync(self) -> list[todo.Effect]:
        return self.step(happened.LogSynced(self.core.log.end))

    def fetch(self, node_id: int, offset: int, epoch: int, request_epoch: int | None = None) -> list[todo.Effect]:
        request_epoch = self.core.epoch if request_epoch is None else request_epoch
        return self.ask(said.FetchRequest(request_epoch, KEYS[node_id], OffsetAndEpoch(offset, epoch), 0))

    def follow(self, leader_id: int, epoch: int) -> said.FetchRequest:
        effects = self.ask(said.BeginEpochRequest(epoch, leader_id, f"host{leader_id}:1", KEYS[1]))
        assert self.core.role is Role.FOLLOWER
        (fetch,) = sends(effects)
        assert isinstance(fetch, said.FetchRequest)
        return fetch

    def vote_for(self, node_id: int, epoch: int, end: OffsetAndEpoch, *, pre_vote: bool = False) -> bool:
        response = self.answer_to(said.VoteRequest(epoch, KEYS[node_id], KEYS[1], end, pre_vote))
        assert isinstance(response, said.VoteResponse)
        return response.granted


def sends(effects: list[todo.Effect]) -> list[said.Request]:
    return [effect.request for effect in effects if isinstance(effect, todo.Send)]


def kinds(effects: list[todo.Effect]) -> list[type[todo.Effect]]:
    return [type(effect) for effect in effects]


EMPTY = OffsetAndEpoch(0, 0)


def established(voters: int = 3) -> SingleCore:
    one = SingleCore(voters=voters).elected()
    one.sync()
    one.fetch(2, 2, 1)
    assert one.core.high_watermark == 2
    return one
