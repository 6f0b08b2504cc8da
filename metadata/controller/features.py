"""The feature levels that the whole cluster has agreed on (KIP-584)."""

from collections.abc import Mapping, Sequence
from enum import IntEnum

import attrs

from metadata.configuration import ConfigSchema
from metadata.controller.config import ELIGIBLE_LEADER_REPLICAS_VERSION, SUPPORTED_FEATURES, ControllerConfig
from metadata.controller.decision import Decision
from metadata.controller.election_configs import agreed_min_insync_replicas
from metadata.errors import InvalidUpdateVersion
from metadata.image import MetadataImage
from metadata.records import FeatureLevelRecord, MetadataRecord, VersionRange

_DOES_NOT_KNOW = VersionRange(0, 0)


class UpgradeType(IntEnum):
    """Whether a level may become lower, and whether that may lose something; Kafka's numbers."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@attrs.frozen
class FeatureUpdate:
    """A feature is to be at `level`, 0 turns it off; `upgrade_type` is an UpgradeType's number."""

    name: str
    level: int
    upgrade_type: int = UpgradeType.UPGRADE


def bootstrap(image: MetadataImage, config: ControllerConfig, schema: ConfigSchema) -> list[MetadataRecord]:
    """What a new cluster's log begins with: the levels needed to read the rest, and what they rest on themselves.

    Nothing once that is there.
    """
    records: list[MetadataRecord] = []
    if not image.features:
        records += [FeatureLevelRecord(name=name, feature_level=level) for name, level in config.features.items()]
    levels = image.features or config.features
    if levels.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) > 0:
        records += agreed_min_insync_replicas(image, schema)
    return records


def update_features(
    image: MetadataImage,
    schema: ConfigSchema,
    updates: Sequence[FeatureUpdate],
    node_id: int,
    voters: Sequence[int],
) -> Decision[None]:
    """Raise or lower levels, all of them or none; `node_id` is this controller's.

    Every broker and every controller has to understand the new level, be it fenced or not there now: it must be able to
    come back. Of `voters`, the ids of those who may lead, each has to have registered so that this is known.
    Raises InvalidUpdateVersion about the first that cannot be.
    """
    records: list[MetadataRecord] = []
    for update in updates:
        if reason := _reason_refused(image, update, node_id, voters):
            raise InvalidUpdateVersion(f"Invalid update version {update.level} for feature {update.name}. {reason}")
        if update.name == ELIGIBLE_LEADER_REPLICAS_VERSION and update.level > 0:
            records += agreed_min_insync_replicas(image, schema)
        records.append(FeatureLevelRecord(name=update.name, feature_level=update.level))
    return Decision(records, None)


def _reason_refused(image: MetadataImage, update: FeatureUpdate, node_id: int, voters: Sequence[int]) -> str | None:
    if update.upgrade_type not in list(UpgradeType):
        return "The controller does not support the given upgrade type."
    if update.level < 0:
        return "A feature version cannot be less than 0."
    for who, features in _supported(image, node_id).items():
        if reason := _reason_not_supported(update.level, who, features.get(update.name, _DOES_NOT_KNOW)):
            return reason
    for voter in voters:
        if voter != node_id and voter not in image.cluster.controllers:
            return f"controller {voter} has not registered, and may not support this feature"
    current = image.features.get(update.name, 0)
    if update.level < current and update.upgrade_type == UpgradeType.UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    if update.level > current and update.upgrade_type != UpgradeType.UPGRADE:
        return "Can't downgrade to a newer version."
    return None


def _supported(image: MetadataImage, node_id: int) -> dict[str, Mapping[str, VersionRange]]:
    """What each node understands, by the words in which it is told of. This controller is asked first, by itself."""
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
