"""The requests of those who watch and delete groups."""

from typing import Any, Final

import attrs

from broker.wire.api.delete_groups import DeleteGroupsRequest
from broker.wire.api.describe_groups import DescribeGroupsRequest
from broker.wire.api.list_groups import ListGroupsRequest
from broker.wire.errors import ErrorCode
from broker.wire.schema import replaced
from tests.differential.comparable import EPOCH
from tests.differential.families.groups.members import GROUP
from tests.differential.sequences import Place, Step

_IS_GONE: Final = (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND)


@attrs.frozen(kw_only=True)
class DescribeGroups(Step):
    version: int
    groups: tuple[str, ...] = (GROUP,)

    def request(self, place: Place) -> tuple[Any, int]:
        return DescribeGroupsRequest(groups=list(map(place.named, self.groups))), self.version


@attrs.frozen(kw_only=True)
class ListGroups(Step):
    """The groups of this sequence, among those of all sequences."""

    version: int
    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()

    def request(self, place: Place) -> tuple[Any, int]:
        return ListGroupsRequest(states_filter=list(self.states), types_filter=list(self.types)), self.version

    def comparable(self, place: Place, response: Any) -> Any:
        own = [each for each in response.groups if each.group_id.startswith(f"{place.name}-")]
        return super().comparable(place, replaced(response, groups=own))


@attrs.frozen(kw_only=True)
class DeleteGroups(Step):
    version: int
    groups: tuple[str, ...] = (GROUP,)

    def request(self, place: Place) -> tuple[Any, int]:
        return DeleteGroupsRequest(groups_names=list(map(place.named, self.groups))), self.version

    def comparable(self, place: Place, response: Any) -> Any:
        """The epochs of a group of the same name begin again."""
        group_id = place.named(GROUP)
        if any(each.group_id == group_id and each.error_code in _IS_GONE for each in response.results):
            place.labels.forget(EPOCH)
        return super().comparable(place, response)
