"""The group coordinator as handlers see it: each call completes with the parts of a response, or an error."""

from collections.abc import Callable
from random import Random
from typing import TypeVar

from broker.config import KafkaConfig
from broker.coordinator.completion import Completion
from broker.coordinator.decision import Decision
from broker.coordinator.group.groups import GroupsState
from broker.coordinator.runtime import Runtime

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
