"""The common part of AlterConfigs and IncrementalAlterConfigs: the resources that a client may alter, and results."""

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

from broker.handlers.authorization import config_refusal
from broker.handlers.response_errors import code_of, message_of
from broker.server.context import ControllerContext
from broker.server.scheduler import Work, in_task
from broker.server.slices import STEP_ITEMS, Steps, each
from broker.wire.api import alter_configs, incremental_alter_configs
from broker.wire.errors import KafkaError
from metadata.controller import ConfigOutcome
from metadata.image import ConfigResource
from metadata.protocol import AclOperation

Resource: TypeAlias = alter_configs.AlterConfigsResource | incremental_alter_configs.AlterConfigsResource
R = TypeVar("R", alter_configs.AlterConfigsResourceResponse, incremental_alter_configs.AlterConfigsResourceResponse)
C = TypeVar("C")


def alter_allowed(
    context: ControllerContext,
    resources: Sequence[Resource],
    change_of: Callable[[Any], C],
    alter: Callable[[list[tuple[ConfigResource, list[C]]]], Coroutine[Any, Any, list[ConfigOutcome]]],
    result_class: type[R],
) -> Work[list[R]]:
    """The results of `alter` for the resources that the client may alter, and those of the others, in steps."""
    refusals = yield from each(partial(_refusal, context), resources)
    pairs = list(zip(resources, refusals, strict=True))
    changes = yield from _changes([resource for resource, refusal in pairs if refusal is None], change_of)
    outcomes = yield from in_task(alter(changes))
    results = yield from each(partial(_result, result_class), outcomes)
    results += [result_of(result_class, resource, refusal) for resource, refusal in pairs if refusal is not None]
    return results


def result_of(result_class: type[R], resource: Resource, error: KafkaError | None) -> R:
    """The result of one resource of a request."""
    return _result(result_class, ConfigOutcome(ConfigResource(resource.resource_type, resource.resource_name), error))


def _refusal(context: ControllerContext, resource: Resource) -> KafkaError | None:
    return config_refusal(context, AclOperation.ALTER_CONFIGS, resource.resource_type, resource.resource_name)


def _changes(
    resources: Sequence[Resource], change_of: Callable[[Any], C]
) -> Steps[list[tuple[ConfigResource, list[C]]]]:
    """The requested changes by resource, in steps: one resource may have all configs of the request."""
    changes = []
    for resource in resources:
        ops = yield from each(change_of, resource.configs)
        changes.append((ConfigResource(resource.resource_type, resource.resource_name), ops))
        if not len(changes) % STEP_ITEMS:
            yield
    return changes


def _result(result_class: type[R], outcome: ConfigOutcome) -> R:
    return result_class(
        error_code=code_of(outcome.error),
        error_message=message_of(outcome.error),
        resource_type=outcome.resource.type,
        resource_name=outcome.resource.name,
    )
