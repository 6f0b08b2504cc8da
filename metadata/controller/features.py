"""Finalized feature levels (KIP-584)."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from kraft import lazy_attrs
from metadata.configuration import ConfigSchema
from metadata.controller.controller_config import ControllerConfig
from metadata.controller.decision import Decision
from metadata.controller.election_configs import min_insync_replicas_records
from metadata.controller.feature_levels import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    RECORD_CHANGES,
    SUPPORTED_FEATURES,
    missing_dependency,
)
from metadata.image import MetadataImage
from metadata.protocol import ErrorCode, KafkaError, UpgradeType
from metadata.records import FeatureLevelRecord, MetadataRecord, VersionRange

_DOES_NOT_KNOW = VersionRange(0, 0)


@lazy_attrs.frozen
class FeatureUpdate:
    """Sets a feature to `level`; 0 disables it. `upgrade_type` is the number of an UpgradeType."""

    name: str
    level: int
    upgrade_type: int = UpgradeType.UPGRADE


FeatureUpdates: TypeAlias = Sequence[FeatureUpdate]


def bootstrap(image: MetadataImage, config: ControllerConfig, schema: ConfigSchema) -> list[MetadataRecord]:
    """The first records of a new cluster: its feature levels, and the configs that they require.

    Empty if the log has them already.
    """
    records: list[MetadataRecord] = []
    if not image.features:
        records += [FeatureLevelRecord(name=name, feature_level=level) for name, level in config.features.items()]
    levels = image.features or config.features
    if levels.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) > 0:
        records += min_insync_replicas_records(image, schema)
    return records


def update_features(
    image: MetadataImage,
    schema: ConfigSchema,
    updates: FeatureUpdates,
    node_id: int,
    voters: Sequence[int],
) -> Decision[None]:
    """Apply all updates or none. A level may depend on another one of the same request.

    `node_id` is this controller. All registered brokers and controllers have to support the new level, including fenced
    and stopped ones, because they must be able to return. All of `voters` have to be registered, so that their
    supported levels are known. Raises KafkaError INVALID_UPDATE_VERSION for the first update that is not possible.
    """
    records: list[MetadataRecord] = []
    proposed = {**image.features, **{update.name: update.level for update in updates}}
    supported = _supported(image, node_id)
    unknown_voter = next(
        (voter for voter in voters if voter != node_id and voter not in image.cluster.controllers), None
    )
    for update in updates:
        reason = _reason_refused(image, update, supported, unknown_voter)
        if reason is None and update.name == METADATA_VERSION:
            _check_metadata_version(image, update)
        elif reason is None:
            reason = missing_dependency(update.name, update.level, proposed)
        if reason is not None:
            raise KafkaError(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"Invalid update version {update.level} for feature {update.name}. {reason}",
            )
        if update.name == ELIGIBLE_LEADER_REPLICAS_VERSION and update.level > 0:
            records += min_insync_replicas_records(image, schema)
        records.append(FeatureLevelRecord(name=update.name, feature_level=update.level))
    return Decision(records, None)


def _reason_refused(
    image: MetadataImage,
    update: FeatureUpdate,
    supported: Mapping[str, Mapping[str, VersionRange]],
    unknown_voter: int | None,
) -> str | None:
    """The reason to refuse an update, or None. `supported` maps each node to its supported levels.

    `unknown_voter` is a voter that has not registered, if there is one.
    """
    if update.upgrade_type not in list(UpgradeType):
        return "The controller does not support the given upgrade type."
    if update.level < 0:
        return "A feature version cannot be less than 0."
    for who, features in supported.items():
        if reason := _reason_not_supported(update.level, who, features.get(update.name, _DOES_NOT_KNOW)):
            return reason
    if unknown_voter is not None:
        return f"controller {unknown_voter} has not registered, and may not support this feature"
    current = image.features.get(update.name, 0)
    if update.level < current and update.upgrade_type == UpgradeType.UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    if update.level > current and update.upgrade_type != UpgradeType.UPGRADE:
        return "Can't downgrade to a newer version."
    if update.level < current and update.name == KRAFT_VERSION:
        return "Can't downgrade the version of this feature."
    return None


def _check_metadata_version(image: MetadataImage, update: FeatureUpdate) -> None:
    """Raises KafkaError INVALID_UPDATE_VERSION for a downgrade below a level that changed Kafka's metadata records.

    The records of this project are the same at every level. The rule is kept, so that tools see Kafka's behaviour.
    """
    current = image.features.get(METADATA_VERSION, 0)
    if not any(update.level < change <= current for change in RECORD_CHANGES):
        return
    if update.upgrade_type == UpgradeType.UNSAFE_DOWNGRADE:
        reason = "Unsafe metadata downgrade is not supported in this version."
    else:
        reason = "Refusing to perform the requested downgrade because it might delete metadata information."
    raise KafkaError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"Unsupported metadata.version downgrade from {current} to {update.level}. {reason}",
    )


def _supported(image: MetadataImage, node_id: int) -> dict[str, Mapping[str, VersionRange]]:
    """The supported levels of each node, by its name in messages. This controller is the first."""
    controllers = [each for each in image.cluster.controllers.values() if each.controller_id != node_id]
    return {
        f"Local controller {node_id}": SUPPORTED_FEATURES,
        **{f"Broker {broker.broker_id}": broker.features for broker in image.cluster.brokers.values()},
        **{f"Controller {each.controller_id}": each.features for each in controllers},
    }


def _reason_not_supported(level: int, who: str, levels: VersionRange) -> str | None:
    lowest, highest = levels
    if lowest <= level <= highest:
        return None
    if highest == 0:
        return f"{who} does not support this feature."
    return f"{who} only supports versions {lowest if lowest == highest else f'{lowest}-{highest}'}"
