"""UpdateFeatures (key 57): finalize, upgrade or downgrade feature levels (KIP-584).

Always flexible. Notable versions:
    1  upgrade_type in place of allow_downgrade; validate_only
    2  no more results per feature: all are updated, or none (KIP-1022)
"""

from typing import Final

from broker.wire.schema import field, request, response, struct


@struct
class FeatureUpdateKey:
    """`upgrade_type`: 1 upgrade, 2 safe downgrade, 3 unsafe downgrade."""

    feature: str = field("string", "0+", default="")
    max_version_level: int = field("int16", "0+", default=0)
    allow_downgrade: bool = field("bool", "0", default=False)
    upgrade_type: int = field("int8", "1+", default=1)


# Kafka has fewer than ten features. All updates are one decision, which thousands of them would hold the loop for.
_ELEMENTS_MAX: Final = 1_000


@request(key=57, versions="0-2", flexible="0+", elements_max=_ELEMENTS_MAX)
class UpdateFeaturesRequest:
    timeout_ms: int = field("int32", "0+", default=60000)
    feature_updates: list[FeatureUpdateKey] = field([FeatureUpdateKey], "0+", factory=list)
    validate_only: bool = field("bool", "1+", default=False)


@struct
class UpdatableFeatureResult:
    feature: str = field("string", "0+", default="")
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")


@response(key=57, versions="0-2", flexible="0+")
class UpdateFeaturesResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")
    results: list[UpdatableFeatureResult] = field([UpdatableFeatureResult], "0-1", factory=list)
