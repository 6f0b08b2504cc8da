"""Refuses records that a registered node does not know: a node of an earlier release ends when it reads one."""

from metadata.image import MetadataImage
from metadata.protocol import ErrorCode, KafkaError


def check_nodes_know(image: MetadataImage, records: str, subject: str) -> None:
    """Raises KafkaError UNSUPPORTED_VERSION while a registered node does not know `records`.

    That is a name in `metadata.controller.feature_levels.REGISTERED_FEATURES`. `subject` stands for them in the
    message.
    """
    cluster = image.cluster
    nodes = {f"Broker {broker.broker_id}": broker.features for broker in cluster.brokers.values()}
    nodes |= {f"Controller {each.controller_id}": each.features for each in cluster.controllers.values()}
    for name, features in nodes.items():
        known = features.get(records)
        if known is None or known.max_version < 1:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{name} is of a release that does not know {subject}. Upgrade it first.",
            )
