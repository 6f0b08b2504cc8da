"""Waits until a server answers from metadata that has all changes which were acknowledged so far."""

from typing import Any, Final

import attrs
import trio

from broker.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from broker.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.differential.sequences import Call, Place

BARRIER: Final = "barrier"
_GROUP: Final = 32
_CONFIG: Final = "consumer.session.timeout.ms"
_VALUES: Final = range(45_000, 60_001)
_ALTER_VERSION, _DESCRIBE_VERSION = 1, 4
_WITHIN_S: Final = 60
_PAUSE_S: Final = 0.002


@attrs.define(eq=False)
class Changes:
    """Whether a sequence has changed metadata since its last barrier. `barriers` counts the barriers so far."""

    is_pending: bool = False
    barriers: int = 0


async def until_applied(place: Place, call: Call, changes: Changes) -> None:
    """Sets a config of a group that exists nowhere, and waits until it is described.

    Configs of the server itself take effect after the metadata that has them is visible, and before the next metadata
    is. So there are two barriers.
    """
    for _ in range(2):
        value = str(_VALUES[changes.barriers % len(_VALUES)])
        changes.barriers += 1
        await _set(call, place.named(BARRIER), value)
        with trio.fail_after(_WITHIN_S):
            while await _described(call, place.named(BARRIER)) != value:
                await trio.sleep(_PAUSE_S)
    changes.is_pending = False


async def _set(call: Call, group: str, value: str) -> None:
    config = AlterableConfig(name=_CONFIG, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=_GROUP, resource_name=group, configs=[config])
    response = await call(IncrementalAlterConfigsRequest(resources=[resource]), _ALTER_VERSION)
    assert not response.responses[0].error_code, response


async def _described(call: Call, group: str) -> Any:
    resource = DescribeConfigsResource(resource_type=_GROUP, resource_name=group, configuration_keys=[_CONFIG])
    response = await call(DescribeConfigsRequest(resources=[resource]), _DESCRIBE_VERSION)
    return response.results[0].configs[0].value
