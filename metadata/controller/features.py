"""The feature levels that the whole cluster has agreed on."""

from metadata.controller.config import ControllerConfig
from metadata.image import MetadataImage
from metadata.records import FeatureLevelRecord


def bootstrap(image: MetadataImage, config: ControllerConfig) -> list[FeatureLevelRecord]:
    """What a new cluster's log begins with: the levels needed to read the rest. Nothing once there are some."""
    if image.features:
        return []
    return [FeatureLevelRecord(name=name, feature_level=level) for name, level in config.features.items()]
