"""Changes of client quotas (KIP-546)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from ipaddress import ip_address
from math import inf, isfinite
from typing import Final, NamedTuple

from kraft import lazy_attrs
from metadata.controller.decision import Decision
from metadata.controller.feature_levels import QUOTA_RECORDS
from metadata.controller.known_records import check_nodes_know
from metadata.image import MetadataImage
from metadata.protocol import ErrorCode, KafkaError, QuotaKey
from metadata.records import ClientQuotaRecord, QuotaEntity


class QuotaEntityType(StrEnum):
    """The types of entities that quotas apply to."""

    USER = "user"
    CLIENT_ID = "client-id"
    IP = "ip"


@lazy_attrs.frozen
class _Rule:
    """The largest value of a quota, and the integer type of its values in Kafka; None for fractional values."""

    value_max: float
    integer_type: str | None = None


_CLIENT_RULES: Final[Mapping[str, _Rule]] = {
    QuotaKey.PRODUCER_BYTE_RATE: _Rule(2.0**63, "a LONG"),
    QuotaKey.CONSUMER_BYTE_RATE: _Rule(2.0**63, "a LONG"),
    QuotaKey.REQUEST_PERCENTAGE: _Rule(inf),
    QuotaKey.CONTROLLER_MUTATION_RATE: _Rule(inf),
}
_IP_RULES: Final[Mapping[str, _Rule]] = {
    QuotaKey.CONNECTION_CREATION_RATE: _Rule(2.0**31 - 1, "an INT"),
}
# Kafka's tolerance for values that have to be whole numbers.
_FRACTION_MAX: Final = 1e-6


class QuotaAlteration(NamedTuple):
    """The changes of one entity: pairs of a quota's key and its new value, None to remove the quota."""

    entity: QuotaEntity
    ops: Sequence[tuple[str, float | None]]


class QuotaOutcome(NamedTuple):
    """The result for one entity of a request; `error` is None if it succeeded."""

    entity: QuotaEntity
    error: KafkaError | None


def alter_client_quotas(image: MetadataImage, alterations: Sequence[QuotaAlteration]) -> Decision[list[QuotaOutcome]]:
    """Change some quotas of each entity, and keep its other ones. Each entity succeeds or fails independently.

    An entity that is named more than once fails, and has one outcome. Kafka then makes the first of the changes, but
    its response is the same failure.

    Raises KafkaError UNSUPPORTED_VERSION while a registered node is of a release that does not know the record: the
    node would end.
    """
    check_nodes_know(image, QUOTA_RECORDS, "client quotas")
    named = Counter(alteration.entity for alteration in alterations)
    repeated = KafkaError(ErrorCode.INVALID_REQUEST, "Each quota entity must appear at most once.")
    records: list[ClientQuotaRecord] = []
    outcomes = [QuotaOutcome(entity, repeated) for entity, times in named.items() if times > 1]
    for entity, ops in alterations:
        if named[entity] > 1:
            continue
        try:
            records += _changes(image, entity, ops)
            outcomes.append(QuotaOutcome(entity, None))
        except KafkaError as error:
            outcomes.append(QuotaOutcome(entity, error.with_traceback(None)))
    return Decision(records, outcomes)


def check_quota(entity: QuotaEntity, key: str, value: float) -> None:
    """Raises KafkaError INVALID_REQUEST for a quota that the entity cannot have."""
    _check_value(_rules(entity), key, value)


def _changes(
    image: MetadataImage, entity: QuotaEntity, ops: Sequence[tuple[str, float | None]]
) -> list[ClientQuotaRecord]:
    rules = _rules(entity)
    wanted = dict(ops)
    if len(wanted) < len(ops):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Each quota key must appear at most once for an entity.")
    for key, value in wanted.items():
        if value is not None:
            _check_value(rules, key, value)
    before = image.client_quotas.of(entity)
    return [
        ClientQuotaRecord(entity=entity, key=key, remove=True)
        if value is None
        else ClientQuotaRecord(entity=entity, key=key, value=value)
        for key, value in wanted.items()
        if value != before.get(key)
    ]


def _rules(entity: QuotaEntity) -> Mapping[str, _Rule]:
    """The quotas that the entity may have. Raises KafkaError INVALID_REQUEST for an entity that cannot have any."""
    if not entity:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid empty client quota entity")
    names: dict[str, str | None] = {}
    for entity_type, name in entity:
        if entity_type in names:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Invalid client quota entity, duplicate entity entry {entity_type}"
            )
        if entity_type not in tuple(QuotaEntityType):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unhandled client quota entity type: {entity_type}")
        if name == "":
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Empty {entity_type} not supported")
        names[entity_type] = name
    if QuotaEntityType.IP not in names:
        return _CLIENT_RULES
    if len(names) > 1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "Invalid quota entity combination, IP entity should not be combined with User or ClientId",
        )
    _check_address(names[QuotaEntityType.IP])
    return _IP_RULES


def _check_address(address: str | None) -> None:
    """Raises KafkaError INVALID_REQUEST for a host name.

    Kafka resolves host names on each node, so nodes could disagree about the entity of the quota.
    """
    try:
        if address is not None:
            ip_address(address)
    except ValueError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{address} is not a valid IP address.") from error


def _check_value(rules: Mapping[str, _Rule], key: str, value: float) -> None:
    rule = rules.get(key)
    if rule is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Invalid configuration key {key}")
    if not value > 0:  # also if it is not a number
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Quota {key} must be greater than 0")
    if rule.integer_type is None:
        if not isfinite(value):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Quota {key} must be finite")
        return
    if value > rule.value_max:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Proposed value for {key} is too large for {rule.integer_type}.")
    if value % 1.0 > _FRACTION_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{key} cannot be a fractional value.")
