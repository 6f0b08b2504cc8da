"""The group coordinator as handlers see it: each call completes with the parts of a response, or an error."""

from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

from broker.config import KafkaConfig
from broker.coordinator.completion import Completion
from broker.coordinator.decision import Decision
from broker.coordinator.group.groups import GroupsState
from broker.coordinator.group.offset_requests import (
    Committer,
    OffsetToCommit,
    commit_offsets,
    delete_offsets,
    fetch_offsets,
)
from broker.coordinator.runtime import Runtime
from broker.wire.api.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from broker.wire.errors import ErrorCode

T = TypeVar("T")


class GroupCoordinator:
    """See the module's docstring. `config` is the configuration in force; `rng` makes members' ids."""

    def __init__(self, runtime: Runtime[GroupsState], config: Callable[[], KafkaConfig], rng: Random) -> None:
        self.runtime = runtime
        self._config = config
        self._rng = rng

    def _write(self, group_id: str, decide: Callable[[GroupsState, int], Decision[T]]) -> Completion[T]:
        return self.runtime.write(self.runtime.partition_for(group_id), decide)

    def _read(self, group_id: str, ask: Callable[[GroupsState, int], T]) -> Completion[T]:
        return self.runtime.read(self.runtime.partition_for(group_id), ask)

    # Offsets

    def offset_commit(
        self, committer: Committer, offsets: Sequence[OffsetToCommit], retention_time_ms: int
    ) -> Completion[list[ErrorCode]]:
        """An error code for each of the offsets."""
        return self._write(
            committer.group_id,
            lambda state, now_ms: commit_offsets(state, committer, offsets, retention_time_ms, now_ms),
        )

    def offset_fetch(
        self, request: OffsetFetchRequestGroup, *, require_stable: bool
    ) -> Completion[OffsetFetchResponseGroup]:
        """What is committed of the topics, which are named in the request."""
        return self._read(
            request.group_id, lambda state, now_ms: fetch_offsets(state, request, require_stable=require_stable)
        )

    def offset_delete(self, group_id: str, partitions: Sequence[tuple[str, int]]) -> Completion[list[ErrorCode]]:
        """An error code for each of the partitions."""
        return self._write(group_id, lambda state, now_ms: delete_offsets(state, group_id, partitions))
