"""The requests of those who administer share groups: offsets and configs."""

from typing import Any, Final

import attrs

from broker.wire.api.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from broker.wire.api.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from broker.wire.api.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from broker.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.differential.comparable import error_name
from tests.differential.families.groups.members import GROUP
from tests.differential.families.records.readers import label_topics
from tests.differential.families.shares.membership_steps import without_messages
from tests.differential.families.shares.share_members import members_of
from tests.differential.sequences import Place, Step

_GROUP_RESOURCE: Final = 32
_SET: Final = 0


def _comparable(step: Step, place: Place, response: Any) -> Any:
    label_topics(place)
    return without_messages(Step.comparable(step, place, response))


def _by_topic(partitions: tuple[tuple[str, int], ...]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return topics


@attrs.frozen(kw_only=True)
class DescribeShareOffsets(Step):
    """Without `partitions`, all of each group."""

    version: int = 1
    partitions: tuple[tuple[str, int], ...] | None = None
    groups: tuple[str, ...] = (GROUP,)

    def request(self, place: Place) -> tuple[Any, int]:
        topics = None
        if self.partitions is not None:
            topics = [
                DescribeShareGroupOffsetsRequestTopic(topic_name=place.named(topic), partitions=indexes)
                for topic, indexes in _by_topic(self.partitions).items()
            ]
        groups = [
            DescribeShareGroupOffsetsRequestGroup(group_id=place.named(group), topics=topics) for group in self.groups
        ]
        return DescribeShareGroupOffsetsRequest(groups=groups), self.version

    def comparable(self, place: Place, response: Any) -> Any:
        return _comparable(self, place, response)


@attrs.frozen(kw_only=True)
class LetLocksExpire(DescribeShareOffsets):
    """Has the next step come after short locks have expired."""

    def observe(self, place: Place, response: Any) -> None:
        members_of(place).expects_expiry = True


@attrs.frozen(kw_only=True)
class AlterShareOffsets(Step):
    partitions: tuple[tuple[str, int], ...]
    offset: int = 0
    group: str = GROUP

    def request(self, place: Place) -> tuple[Any, int]:
        topics = [
            AlterShareGroupOffsetsRequestTopic(
                topic_name=place.named(topic),
                partitions=[
                    AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=self.offset)
                    for index in indexes
                ],
            )
            for topic, indexes in _by_topic(self.partitions).items()
        ]
        return AlterShareGroupOffsetsRequest(group_id=place.named(self.group), topics=topics), 0

    def comparable(self, place: Place, response: Any) -> Any:
        return _comparable(self, place, response)


@attrs.frozen(kw_only=True)
class DeleteShareOffsets(Step):
    topics: tuple[str, ...]
    group: str = GROUP

    def request(self, place: Place) -> tuple[Any, int]:
        topics = [DeleteShareGroupOffsetsRequestTopic(topic_name=place.named(topic)) for topic in self.topics]
        return DeleteShareGroupOffsetsRequest(group_id=place.named(self.group), topics=topics), 0

    def comparable(self, place: Place, response: Any) -> Any:
        return _comparable(self, place, response)


@attrs.frozen(kw_only=True)
class SetGroupConfigs(Step):
    configs: tuple[tuple[str, str], ...]
    group: str = GROUP

    def request(self, place: Place) -> tuple[Any, int]:
        configs = [AlterableConfig(name=key, config_operation=_SET, value=value) for key, value in self.configs]
        resource = AlterConfigsResource(
            resource_type=_GROUP_RESOURCE, resource_name=place.named(self.group), configs=configs
        )
        return IncrementalAlterConfigsRequest(resources=[resource]), 1

    def observe(self, place: Place, response: Any) -> None:
        members_of(place).changes.is_pending = True

    def comparable(self, place: Place, response: Any) -> Any:
        return error_name(response.responses[0].error_code)
