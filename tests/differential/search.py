"""Runs sequences on both servers, compares the outcomes, and shrinks what differs."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from random import Random
from typing import Final

import attrs
import trio

from tests.differential.comparable import brief
from tests.differential.execution import Outcome, Server
from tests.differential.known_differences import Difference, KnownDifference, first_difference
from tests.differential.sequences import Family, Place, Step
from tests.differential.servers import Ports
from tests.differential.shrinking import Shrunk, selected, shrink

# Topics are created and deleted for so many sequences at once.
_SEQUENCES_PER_TOPICS: Final = 20
# Each difference is tried again so often: as it was found, to tell it from one of timing, and once it is shrunk.
REPEATS: Final = 3


@attrs.define(eq=False)
class Finding:
    """A kind of difference, with the smallest sequence that shows it. `seeds` are all that led to it."""

    difference: Difference
    seeds: list[int]
    shrunk: Shrunk
    kafka: Sequence[Outcome]
    reproduced: int

    def describe(self, family: str) -> str:
        """The minimal sequence, both responses, and the command that replays it."""
        seed, difference = self.seeds[0], self.difference
        steps = [f"    {step.step}\n        {brief(step.value)}" for step in self.kafka[: difference.index]]
        steps += [
            f"    {difference.kafka.step}",
            f"        kafka: {brief(difference.kafka.value)}",
            f"        ours:  {brief(difference.ours.value)}",
        ]
        steps += [f"        {path}: {kafka!r} / {ours!r}" for path, kafka, ours in difference.paths]
        kept = ",".join(map(str, self.shrunk.kept))
        pauses = " --pauses" if self.shrunk.is_paused else ""
        return "\n".join(
            [
                f"{difference.kind}",
                f"  {len(self.seeds)} sequences: seeds {', '.join(map(str, self.seeds[:8]))};"
                f" {self.reproduced} of {REPEATS} repetitions differ",
                *steps,
                f"  replay: make test-differential FAMILY={family} FIRST={seed} COUNT=1",
                f"  replay these steps: make test-differential FAMILY={family} FIRST={seed} COUNT=1"
                f' ARGS="--steps {kept}{pauses}"',
            ]
        )


@attrs.define(eq=False)
class Search:
    """The search of one family. `used` counts how often each known difference was needed.

    `not_repeated` has the seeds of differences that no repetition has shown. These come from timing, as when Kafka
    answers a share fetch before it has loaded the share-partition, on a machine that is busy.
    """

    family: Family
    ports: Ports
    known: Sequence[KnownDifference]
    prefix: str
    used: list[int] = attrs.field(init=False)
    sequences: int = 0
    requests: Counter[str] = attrs.field(factory=Counter)
    findings: dict[str, Finding] = attrs.field(factory=dict)
    not_repeated: dict[str, list[int]] = attrs.field(factory=dict)
    _numbers: Iterator[int] = attrs.field(factory=count, init=False)

    def __attrs_post_init__(self) -> None:
        self.used = [0] * len(self.known)

    def servers(self) -> tuple[Server, Server]:
        """New connections to Kafka and to our node."""
        return Server("kafka", self.ports.kafka), Server("ours", self.ports.ours)

    def steps_of(self, seed: int) -> list[Step]:
        return list(self.family.generate(Random(f"{self.family.name} {seed}")))

    async def run(
        self,
        seeds: Sequence[int],
        *,
        workers: int,
        choose: Callable[[Sequence[Step]], Sequence[Step]] = lambda steps: steps,
        progress: Callable[[], None] = lambda: None,
    ) -> None:
        """Compares the sequences of these seeds, by several workers at a time."""
        await self._prepare()
        portions = [seeds[at : at + _SEQUENCES_PER_TOPICS] for at in range(0, len(seeds), _SEQUENCES_PER_TOPICS)]
        send, receive = trio.open_memory_channel[Sequence[int]](len(portions))
        for portion in portions:
            send.send_nowait(portion)
        send.close()

        async def work() -> None:
            pair = _Pair(self)
            try:
                async for portion in receive:
                    for seed in portion:
                        await self._compare(pair, seed, list(choose(self.steps_of(seed))))
                        progress()
                    await pair.forget_topics()
            finally:
                with trio.CancelScope(shield=True):
                    await pair.aclose()

        async with trio.open_nursery() as nursery:
            for _ in range(min(workers, len(portions))):
                nursery.start_soon(work)

    async def _prepare(self) -> None:
        for server in self.servers():
            await self.family.prepare(server.call)
            await server.aclose()

    async def _compare(self, pair: "_Pair", seed: int, steps: list[Step]) -> None:
        difference = await pair.difference(steps, self.used)
        self.sequences += 1
        self.requests.update(type(each).__name__ for each in steps)
        if difference is None:
            return
        kind = difference.kind
        if kind in self.findings:
            self.findings[kind].seeds.append(seed)
            return
        kafka = pair.last

        async def fails(tried: Sequence[Step]) -> bool:
            found = await pair.difference(tried)
            return found is not None and found.kind == kind

        for _ in range(REPEATS):
            if await fails(steps):
                break
        else:
            self.not_repeated.setdefault(kind, []).append(seed)
            return
        if kind in self.findings:  # by another worker meanwhile
            self.findings[kind].seeds.append(seed)
            return
        self.findings[kind] = Finding(difference, [seed], Shrunk(tuple(range(len(steps))), False), kafka, 0)
        shrunk = await shrink(steps, fails)
        minimal = selected(steps, shrunk)
        reproduced = 0
        for _ in range(REPEATS):
            found = await pair.difference(minimal)
            if found is not None and found.kind == kind:
                reproduced += 1
                self.findings[kind].difference, self.findings[kind].kafka = found, pair.last
        self.findings[kind].shrunk, self.findings[kind].reproduced = shrunk, reproduced


class _Pair:
    """The connections of one worker to both servers, and the topics of its next sequences."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._servers = search.servers()
        self._names: list[str] = []
        self._topic_ids: list[dict[str, bytes]] = [{}, {}]
        # The names whose topics have been used, to be deleted.
        self._used: list[str] = []
        # The outcomes of Kafka in the last sequence.
        self.last: Sequence[Outcome] = []

    async def difference(self, steps: Sequence[Step], used: list[int] | None = None) -> Difference | None:
        """The first difference of a sequence, under names that no other sequence had."""
        if not self._names:
            await self._create_topics()
        name = self._names.pop()
        self._used.append(name)
        family = self._search.family
        outcomes: list[list[Outcome]] = [[], []]

        async def run(at: int) -> None:
            ids = {f"{name}-{suffix}": self._topic_ids[at][f"{name}-{suffix}"] for suffix in family.topics}
            outcomes[at] = await self._servers[at].run(family, steps, Place(name, ids, family.new_state()))

        async with trio.open_nursery() as nursery:
            for at in range(len(outcomes)):
                nursery.start_soon(run, at)
        self.last = outcomes[0]
        counts = [0] * len(self._search.known) if used is None else used
        return first_difference(family.name, *outcomes, self._search.known, counts)

    async def _create_topics(self) -> None:
        search = self._search
        self._names = [f"{search.prefix}{next(search._numbers)}" for _ in range(_SEQUENCES_PER_TOPICS)]
        topics = {f"{name}-{suffix}": count for name in self._names for suffix, count in search.family.topics.items()}
        for at, server in enumerate(self._servers):
            self._topic_ids[at] = await server.create_topics(topics) if topics else {}

    async def forget_topics(self) -> None:
        """Deletes the topics of the sequences so far."""
        names = [f"{name}-{suffix}" for name in self._used for suffix in self._search.family.topics]
        self._used = []
        if names:
            for server in self._servers:
                await server.delete_topics(names)

    async def aclose(self) -> None:
        for server in self._servers:
            await server.aclose()
