"""AlterClientQuotas (key 49): set and remove quotas of users, client ids and addresses (KIP-546)."""

from typing import Final

from broker.handlers.response_errors import code_of, message_of
from broker.server.context import ControllerContext
from broker.server.handler import Handler
from broker.server.scheduler import Work, in_task
from broker.server.slices import STEP_ITEMS, Steps, each
from broker.wire.api.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    EntryResult,
    OpData,
)
from broker.wire.errors import ErrorCode, KafkaError
from metadata.controller import QuotaAlteration, QuotaOutcome
from metadata.protocol import AclOperation
from metadata.records import QuotaEntity, quota_entity

# As many records as Kafka's controller writes for one request.
ENTITIES_MAX: Final = 10_000


def alter_client_quotas(
    context: ControllerContext, request: AlterClientQuotasRequest
) -> Work[AlterClientQuotasResponse]:
    if len(request.entries) > ENTITIES_MAX:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"A request alters {ENTITIES_MAX} quota entities at most.")
    alterations = yield from _alterations(request.entries)
    outcomes = yield from in_task(
        context.services.controller.alter_client_quotas(
            alterations, validate_only=request.validate_only, context=context
        )
    )
    return AlterClientQuotasResponse(entries=(yield from each(_result, outcomes)))


def _alterations(entries: list[EntryData]) -> Steps[list[QuotaAlteration]]:
    """One entity may have all quotas of the request."""
    alterations = []
    for entry in entries:
        ops = yield from each(_op, entry.ops)
        entity = yield from each(_entity_part, entry.entity)
        alterations.append(QuotaAlteration(quota_entity(entity), ops))
        if not len(alterations) % STEP_ITEMS:
            yield
    return alterations


def _op(op: OpData) -> tuple[str, float | None]:
    return op.key, None if op.remove else op.value


def _entity_part(part: EntityData) -> tuple[str, str | None]:
    return part.entity_type, part.entity_name


def _result(outcome: QuotaOutcome) -> EntryResult:
    return EntryResult(
        error_code=code_of(outcome.error), error_message=message_of(outcome.error), entity=_entity(outcome.entity)
    )


def _entity(entity: QuotaEntity) -> list[EntityData]:
    return [EntityData(entity_type=entity_type, entity_name=name) for entity_type, name in entity]


def refused(
    context: ControllerContext, request: AlterClientQuotasRequest, error: KafkaError
) -> Steps[AlterClientQuotasResponse]:
    def result(entry: EntryData) -> EntryResult:
        return EntryResult(error_code=code_of(error), error_message=message_of(error), entity=entry.entity)

    entries = yield from each(result, request.entries)
    return AlterClientQuotasResponse(entries=entries)


HANDLER = Handler(
    AlterClientQuotasRequest, alter_client_quotas, refused=refused, operation=AclOperation.ALTER_CONFIGS, forwarded=True
)
