"""The differences of client quotas."""

from collections.abc import Sequence
from math import isfinite
from typing import Final

from tests.differential.families.quotas.steps import IP, AlterQuotas
from tests.differential.known_differences.entries import KnownDifference, anything, containing, is_text

_FAMILY: Final = "quotas"
_STEP: Final = AlterQuotas.__name__
_MESSAGE: Final = r"entries\[\d+\]\.error_message"
# Addresses that Java takes for IPv4 ones: with fewer than four numbers, or with leading zeros.
_SHORT_ADDRESSES: Final = ("1.2.3", "127", "01.2.3.4", "[::1]")

_IS_ABOUT_A_KEY: Final = containing(
    "Invalid configuration key", "must be greater than 0", "is too large for", "cannot be a fractional value"
)


def _repeats_entity(step: AlterQuotas) -> bool:
    entities = [tuple(sorted(dict(entity).items(), key=repr)) for entity, _ in step.entries]
    return len(set(entities)) < len(entities)


def _repeats_key(step: AlterQuotas) -> bool:
    return any(len(dict(ops)) < len(ops) for _, ops in step.entries)


def _repeats_type(step: AlterQuotas) -> bool:
    return any(len(dict(entity)) < len(entity) for entity, _ in step.entries)


def _has_infinite_value(step: AlterQuotas) -> bool:
    return any(value is not None and not isfinite(value) for _, ops in step.entries for _, value in ops)


def _has_zone(step: AlterQuotas) -> bool:
    return any(kind == IP and name is not None and "%" in name for entity, _ in step.entries for kind, name in entity)


def _has_short_address(step: AlterQuotas) -> bool:
    return any(kind == IP and name in _SHORT_ADDRESSES for entity, _ in step.entries for kind, name in entity)


QUOTAS: Final[Sequence[KnownDifference]] = (
    KnownDifference(
        family=_FAMILY,
        step=_STEP,
        path=_MESSAGE,
        kafka=containing("Ignoring duplicate entity"),
        ours=is_text,
        reason="an entity that is named twice changes nothing; Kafka makes the first of its changes, and then responds"
        " that it failed",
        where=_repeats_entity,
        diverges=True,
    ),
    KnownDifference(
        family=_FAMILY,
        step=_STEP,
        path=_MESSAGE,
        kafka=containing("Ignoring duplicate entity"),
        ours=is_text,
        reason="says what is wrong with the entity, or that a key is named twice; Kafka says that an entity is",
        where=_repeats_key,
    ),
    KnownDifference(
        family=_FAMILY,
        step=_STEP,
        path=r"entries(\[\d+\]\.(error_code|error_message|entity.*))?",
        kafka=anything,
        ours=anything,
        reason="an entity with two users is refused; Kafka's quota is that of the last of them",
        where=_repeats_type,
        diverges=True,
    ),
    KnownDifference(
        family=_FAMILY,
        step=_STEP,
        path=r"entries\[\d+\]\.(error_code|error_message)",
        kafka=("NONE", None),
        ours=containing("INVALID_REQUEST", "must be greater than 0", "must be finite"),
        reason="quotas that are infinite or no number are refused; Kafka stores them, and compares rates with them",
        where=_has_infinite_value,
        diverges=True,
    ),
    KnownDifference(
        family=_FAMILY,
        step=_STEP,
        path=_MESSAGE,
        kafka=_IS_ABOUT_A_KEY,
        ours=_IS_ABOUT_A_KEY,
        reason="the first of several wrong quotas is named; Kafka takes them in the order of their hashes",
        where=lambda step: any(len(ops) > 1 for _, ops in step.entries),
    ),
    KnownDifference(
        family=_FAMILY,
        step=_STEP,
        path=_MESSAGE,
        kafka=containing("is not a valid IP or resolvable host."),
        ours=containing("is not a valid IP address."),
        reason="addresses are no host names: nodes could resolve a name to different addresses",
    ),
    KnownDifference(
        family=_FAMILY,
        step=_STEP,
        path=r"entries\[\d+\]\.(error_code|error_message)",
        kafka=lambda value: value is None or is_text(value),
        ours=containing("INVALID_REQUEST", "is not a valid IP address."),
        reason="addresses have four numbers without leading zeros; Java reads shorter ones, too",
        where=_has_short_address,
        diverges=True,
    ),
    KnownDifference(
        family=_FAMILY,
        step=_STEP,
        path=r"entries\[\d+\]\.(error_code|error_message)",
        kafka=containing("INVALID_REQUEST", "is not a valid IP or resolvable host."),
        ours=anything,
        reason="the zone of an IPv6 address may have any name; Java knows those of interfaces with IPv6 alone",
        where=_has_zone,
        diverges=True,
    ),
    KnownDifference(
        family=_FAMILY,
        step=_STEP,
        path=_MESSAGE,
        kafka=containing("IP entity shouldnot be combined"),
        ours=containing("IP entity should not be combined"),
        reason="Kafka's message lacks a space between two words",
    ),
)
