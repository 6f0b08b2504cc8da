"""Requests of share groups' coordinators to the share coordinator, which keeps the states of their partitions.

Each request comes after a decision that the group's log holds already, and is followed by another one. So a coordinator
that loads the group knows what may have been under way, and does it again.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

import trio

from broker.coordinator.group.partition_sets import NO_PARTITIONS, PartitionSets
from broker.coordinator.group.shard import GroupCoordinatorShard
from broker.coordinator.group.share.offsets import (
    end_deletion,
    end_initialization,
    still_deleting,
    still_initializing,
)
from broker.coordinator.group.share.partition_states import Initialization
from broker.coordinator.runtime.completion import Completion, gather
from broker.coordinator.runtime.decision import Decision
from broker.coordinator.runtime.runtime import CoordinatorRuntime
from broker.coordinator.share.share_state import PartitionSummary, ShareStateStore
from broker.net.completion import Completion as _Completion
from broker.wire.errors import KafkaError
from kraft.background_tasks import BackgroundTasks
from kraft.env import Tracer

T = TypeVar("T")
# A topic's id, and a partition.
Place: TypeAlias = tuple[bytes, int]

# Partitions that are asked for together. To begin so many requests takes some 3 ms.
_PORTION: Final = 256
# A summary is read in any leader epoch.
_ANY_EPOCH: Final = 0


class ShareStates:
    """Initializes, deletes and reads the states of share groups' partitions. `run` must run.

    A group's requests that change states are executed one after the other. Otherwise a state could be deleted after it
    was initialized again. `commit` writes records that were staged outside of a connection's turn.
    """

    def __init__(
        self,
        runtime: CoordinatorRuntime[GroupCoordinatorShard],
        store: ShareStateStore,
        commit: Callable[[], None],
        trace: Tracer,
    ) -> None:
        self._runtime = runtime
        self._store = store
        self._commit = commit
        self._trace = trace
        self._turns: dict[str, trio.Lock] = {}
        self._tasks = BackgroundTasks()

    async def run(self) -> None:
        """Carries the initializations that heartbeats begin, until cancelled."""
        await self._tasks.run()

    def begin_initialization(self, initialization: Initialization) -> None:
        """Begins to initialize states. Returns at once. A failure is traced, and a later heartbeat begins again."""
        self._tasks.start_soon(self._initialize_in_background, initialization)

    async def _initialize_in_background(self, initialization: Initialization) -> None:
        errors = await self.initialize(initialization)
        if errors:
            error = next(iter(errors.values()))
            self._trace(
                "share_states_not_initialized",
                group=initialization.group_id,
                partitions=len(errors),
                error=str(error),
            )

    async def initialize(self, initialization: Initialization) -> dict[Place, KafkaError]:
        """Initializes states, and records in the group's log which of them succeeded. Returns the errors.

        Partitions whose state an earlier request has initialized count as succeeded.
        """
        group_id, offsets = initialization.group_id, initialization.start_offsets
        async with self._turn(group_id):
            left = await self._read(group_id, partial(still_initializing, initialization=initialization))
            if isinstance(left, KafkaError):
                return dict.fromkeys(_places(initialization.partitions), left)

            def ask(topic_id: bytes, index: int) -> Completion[None]:
                offset = offsets[topic_id][index]
                return self._store.initialize(group_id, topic_id, index, initialization.state_epoch, offset)

            errors = _errors(await _ask_all(_places(left), ask))
            succeeded = _without(left, errors)
            recorded = await self._write(
                group_id,
                lambda state, now_ms: end_initialization(state, initialization, succeeded, now_ms),
            )
        if isinstance(recorded, KafkaError):
            return dict.fromkeys(_places(initialization.partitions), recorded)
        return errors

    async def delete(self, group_id: str, partitions: PartitionSets) -> dict[bytes, KafkaError]:
        """Deletes states, and records in the group's log the topics whose states are all deleted. Returns an error for
        each other topic.
        """
        async with self._turn(group_id):
            left = await self._read(group_id, partial(still_deleting, group_id=group_id, partitions=partitions))
            if isinstance(left, KafkaError):
                return dict.fromkeys(partitions, left)
            ask = partial(self._store.delete, group_id)
            errors: dict[bytes, KafkaError] = {}
            for (topic_id, _), error in _errors(await _ask_all(_places(left), ask)).items():
                errors[topic_id] = error
            deleted = [topic_id for topic_id in left if topic_id not in errors]
            recorded = await self._write(group_id, lambda state, now_ms: end_deletion(state, group_id, deleted))
        if isinstance(recorded, KafkaError):
            return dict.fromkeys(partitions, recorded)
        return errors

    async def summaries(self, group_id: str, places: Iterable[Place]) -> dict[Place, PartitionSummary | KafkaError]:
        """The summary of each partition's state."""

        def ask(topic_id: bytes, index: int) -> Completion[PartitionSummary]:
            return self._store.read_summary(group_id, topic_id, index, _ANY_EPOCH)

        return await _ask_all(list(places), ask)

    @asynccontextmanager
    async def _turn(self, group_id: str) -> AsyncIterator[None]:
        lock = self._turns.setdefault(group_id, trio.Lock())
        await lock.acquire()
        try:
            yield
        finally:
            lock.release()
            if not lock.locked():
                self._turns.pop(group_id, None)

    async def _read(self, group_id: str, ask: Callable[[GroupCoordinatorShard], T]) -> T | KafkaError:
        return await self._write(group_id, lambda state, now_ms: Decision((), ask(state)))

    async def _write(
        self, group_id: str, decide: Callable[[GroupCoordinatorShard, int], Decision[T]]
    ) -> T | KafkaError:
        completion = self._runtime.write(self._runtime.partition_for(group_id), decide)
        self._commit()
        return await completion.wait()


async def _ask_all(places: list[Place], ask: Callable[[bytes, int], _Completion[T]]) -> dict[Place, T]:
    """The outcomes of a request for each of the places."""
    outcomes: dict[Place, T] = {}
    for first in range(0, len(places), _PORTION):
        if first:
            await trio.lowlevel.checkpoint()  # requests that are refused at once are not waited for
        portion = places[first : first + _PORTION]
        asked = await gather([ask(*place) for place in portion]).wait()
        outcomes.update(zip(portion, asked, strict=True))
    return outcomes


def _errors(outcomes: Mapping[Place, Any]) -> dict[Place, KafkaError]:
    return {place: outcome for place, outcome in outcomes.items() if isinstance(outcome, KafkaError)}


def _places(sets: PartitionSets) -> list[Place]:
    return [(topic_id, index) for topic_id, indexes in sets.items() for index in sorted(indexes)]


def _without(sets: PartitionSets, errors: Mapping[Place, KafkaError]) -> PartitionSets:
    if not errors:
        return sets
    rest = {
        topic_id: frozenset(index for index in indexes if (topic_id, index) not in errors)
        for topic_id, indexes in sets.items()
    }
    return {topic_id: indexes for topic_id, indexes in rest.items() if indexes} or NO_PARTITIONS
