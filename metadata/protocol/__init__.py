"""Kafka's numbers that the controller decides with, and that clients send and get."""

from metadata.protocol.enums import (
    ConfigOperation,
    ConfigResourceType,
    ConfigSource,
    ConfigType,
    ElectionType,
    OpenEnum,
    SecurityProtocol,
    UpgradeType,
)

__all__ = [
    "ConfigOperation",
    "ConfigResourceType",
    "ConfigSource",
    "ConfigType",
    "ElectionType",
    "OpenEnum",
    "SecurityProtocol",
    "UpgradeType",
]
