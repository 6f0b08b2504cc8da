"""The common part of AlterConfigs and IncrementalAlterConfigs: the resources that a client may alter, and results."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

from broker.handlers.authorization import config_refusal
from broker.handlers.response_errors import code_of, message_of
from broker.server.context import Context, ControllerContext
from broker.server.handler import OwnPart
from broker.server.scheduler import Work, in_task
from broker.server.services import NodeServices
from broker.server.slices import STEP_ITEMS, Steps, each
from broker.wire.api import alter_configs, incremental_alter_configs
from broker.wire.errors import ErrorCode, KafkaError
from metadata.configuration import InvalidConfig
from metadata.controller import CONFIGS_MAX, ConfigOutcome
from metadata.image import ConfigResource
from metadata.protocol import AclOperation, ConfigResourceType

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


def check_own(
    context: Context[NodeServices], resource: Resource, changes: Callable[[Mapping[str, str]], Mapping[str, str | None]]
) -> KafkaError | None:
    """The refusal if the configs are of this broker, or of all brokers, and this broker could not apply them.

    `changes` returns the new values, given the present ones. As in Kafka, the broker that gets a request checks login
    modules and key stores, which the controller cannot. It does so only for clients that may alter them, because it
    reads the files that they name. The controller checks, and refuses, everything else.
    """
    config = context.services.config
    per_broker = bool(resource.resource_name)
    if resource.resource_type != ConfigResourceType.BROKER or _refusal(context, resource) is not None:
        return None
    if (per_broker and resource.resource_name != str(config.node_id)) or len(resource.configs) > CONFIGS_MAX:
        return None
    try:
        wanted = changes(config.layers.broker if per_broker else config.layers.cluster)
        context.services.effective.check(wanted, per_broker=per_broker)
    except InvalidConfig as error:  # INVALID_REQUEST as in Kafka, although INVALID_CONFIG would fit (KAFKA-13609)
        return KafkaError(ErrorCode.INVALID_REQUEST, error.message)
    except KafkaError:  # the controller refuses it, too
        return None
    return None


def own_part(request: Any, response_class: type[Any], results: Sequence[R | None]) -> OwnPart | None:
    """The part of a request whose resources have `results` here; those without are for the controller."""
    if not any(results):
        return None
    others = [resource for resource, result in zip(request.resources, results, strict=True) if result is None]

    def respond(response: Any) -> Steps[Any]:
        """Both parts, in the order of the request."""
        answered = iter(() if response is None else response.responses)
        responses = yield from each(lambda result: result or next(answered), results)
        throttle_time_ms = 0 if response is None else response.throttle_time_ms
        return response_class(throttle_time_ms=throttle_time_ms, responses=responses)

    remaining = type(request)(resources=others, validate_only=request.validate_only)
    return OwnPart(remaining if others else None, respond)


def result_of(result_class: type[R], resource: Resource, error: KafkaError | None) -> R:
    """The result of one resource of a request."""
    return _result(result_class, ConfigOutcome(ConfigResource(resource.resource_type, resource.resource_name), error))


def _refusal(context: Context[Any], resource: Resource) -> KafkaError | None:
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
