"""For any well-formed messages, a core never fails, and never returns an impossible effect."""

from random import Random

import pytest

from jepsen.hostile.quorum_composer import QuorumComposer, Situation
from kraft.core import Role
from kraft.core import effects as todo
from kraft.core import events as happened
from kraft.core import messages as said
from kraft.replicated_log import Batch
from tests.support.raft_core import KEYS, THREE, SingleCore

EVENTS = 4_000


class Disk:
    """The log of a driver, with the same assertions as `kraft.log.DurableLog`."""

    def __init__(self) -> None:
        self.start_offset = 0
        self.batches: list[Batch] = []

    @property
    def end_offset(self) -> int:
        return self.batches[-1].last_offset + 1 if self.batches else self.start_offset

    @property
    def boundaries(self) -> list[int]:
        return [self.start_offset, *(batch.last_offset + 1 for batch in self.batches)]

    def append(self, batch: Batch) -> None:
        assert batch.records
        assert batch.base_offset == self.end_offset
        assert not self.batches or batch.epoch >= self.batches[-1].epoch
        self.batches.append(batch)

    def truncate(self, end_offset: int) -> None:
        assert end_offset in self.boundaries
        self.batches = [batch for batch in self.batches if batch.base_offset < end_offset]


class Driven:
    """A core whose effects are performed at once. Its requests are kept until they are answered."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.one = SingleCore()
        self.disk = Disk()
        self.sent: list[todo.Send] = []
        self.committed = 0

    def step(self, event: happened.Event) -> None:
        self.perform(self.one.step(event, self.rng.choice((0, 0, 1, 20))))

    def perform(self, effects: list[todo.Effect]) -> None:
        for effect in effects:
            match effect:
                case todo.AppendLog():
                    for batch in effect.batches:
                        self.disk.append(batch)
                case todo.TruncateLog():
                    assert effect.end_offset >= self.committed
                    self.disk.truncate(effect.end_offset)
                case todo.Committed():
                    assert self.committed < effect.end_offset <= self.disk.end_offset
                    assert effect.end_offset in (
                        self.disk.start_offset,
                        *(b.last_offset + 1 for b in self.disk.batches),
                    )
                    self.committed = effect.end_offset
                case todo.Send():
                    self.sent.append(effect)
                case todo.InstallSnapshot():
                    self.install(effect)

    def install(self, effect: todo.InstallSnapshot) -> None:
        assert effect.snapshot.offset >= self.committed
        if self.rng.random() < 0.5:
            self.step(happened.SnapshotRefused(effect.snapshot))
            return
        self.disk.start_offset, self.disk.batches = effect.snapshot.offset, []
        self.committed = min(self.committed, effect.snapshot.offset)
        self.step(happened.SnapshotInstalled(effect.snapshot, THREE))


@pytest.mark.seeds(10)
def test_core_never_fails_and_returns_only_possible_effects(seed: int) -> None:
    driven = Driven(seed)
    core, rng = driven.one.core, driven.rng
    roles: set[Role] = set()
    for token in range(EVENTS):
        liar = KEYS[rng.choice((2, 2, 3, 4))]
        situation = Situation(liar, core.voters, core.epoch, core.log.end, core.log.start)
        composer = QuorumComposer(rng, situation)
        match rng.randrange(6):
            case 0 | 1:
                request = composer.request()
                driven.step(happened.Received(token, request, is_unknown_peer=liar is KEYS[4]))
            case 2 | 3 if driven.sent:
                send = driven.sent.pop(rng.randrange(len(driven.sent)))
                response = composer.response_to(send.request)
                if said.is_answer(send.request, response):
                    driven.step(happened.Responded(send.destination, send.request, response))
            case 4:
                driven.step(happened.LogSynced(core.log.end))
            case _ if core.leader_state is not None and rng.random() < 0.5:
                driven.step(happened.Append((b"a", b"b"), 0))
            case _:
                driven.one.now_ms = max(driven.one.now_ms, min(core.deadline_ms, driven.one.now_ms + 2_000))
                driven.step(happened.Tick())
        roles.add(core.role)
    assert {Role.FOLLOWER, Role.LEADER, Role.CANDIDATE} & roles
