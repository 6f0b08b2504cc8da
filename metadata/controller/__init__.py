"""The controller: one room per concern decides records, the log commits them, and only replaying them changes state."""

from metadata.controller.brokers import NO_PREVIOUS_EPOCH, BrokerRegistration
from metadata.controller.config import DEFAULT_FEATURES, KRAFT_VERSION, METADATA_VERSION, ControllerConfig
from metadata.controller.configs import AlterConfigOp, ConfigChange, ConfigOutcome
from metadata.controller.controller import Controller
from metadata.controller.decision import Decision
from metadata.controller.partitions import NewPartitions, TopicOutcome
from metadata.controller.producer_ids import PRODUCER_ID_BLOCK_SIZE, ProducerIdsBlock
from metadata.controller.topic_names import validate_topic_name
from metadata.controller.topics import CreatedTopic, DeletedTopic, NewTopic, TopicToDelete

__all__ = [
    "DEFAULT_FEATURES",
    "KRAFT_VERSION",
    "METADATA_VERSION",
    "NO_PREVIOUS_EPOCH",
    "PRODUCER_ID_BLOCK_SIZE",
    "AlterConfigOp",
    "BrokerRegistration",
    "ConfigChange",
    "ConfigOutcome",
    "Controller",
    "ControllerConfig",
    "CreatedTopic",
    "Decision",
    "DeletedTopic",
    "NewPartitions",
    "NewTopic",
    "ProducerIdsBlock",
    "TopicOutcome",
    "TopicToDelete",
    "validate_topic_name",
]
