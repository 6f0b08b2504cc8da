"""The creation and deletion of topics."""

from typing import Any, Final

import attrs

from broker.wire.api.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from broker.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.differential.comparable import error_name
from tests.differential.families.records.readers import readers_of
from tests.differential.sequences import Place, Step

_CREATE_VERSION: Final = 7
_DELETE_VERSION: Final = 6
_TIMEOUT_MS: Final = 10_000


@attrs.frozen(kw_only=True)
class CreateTopic(Step):
    topic: str
    partitions: int = 2
    configs: tuple[tuple[str, str], ...] = ()

    def request(self, place: Place) -> tuple[Any, int]:
        # The records of steps have fixed times, which are long ago.
        configs = dict(self.configs) | {"retention.ms": "-1"}
        topic = CreatableTopic(
            name=place.named(self.topic),
            num_partitions=self.partitions,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
        )
        return CreateTopicsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS), _CREATE_VERSION

    def observe(self, place: Place, response: Any) -> None:
        (created,) = response.topics
        if not created.error_code:
            state = readers_of(place)
            state.topic_ids.setdefault(self.topic, []).append(bytes(created.topic_id))
            state.partitions[self.topic] = self.partitions

    def comparable(self, place: Place, response: Any) -> Any:
        return error_name(response.topics[0].error_code)


@attrs.frozen(kw_only=True)
class DeleteTopic(Step):
    topic: str

    def request(self, place: Place) -> tuple[Any, int]:
        state = DeleteTopicState(name=place.named(self.topic))
        return DeleteTopicsRequest(topics=[state], timeout_ms=_TIMEOUT_MS), _DELETE_VERSION

    def observe(self, place: Place, response: Any) -> None:
        if not response.responses[0].error_code:
            readers_of(place).partitions[self.topic] = 0

    def comparable(self, place: Place, response: Any) -> Any:
        return error_name(response.responses[0].error_code)
