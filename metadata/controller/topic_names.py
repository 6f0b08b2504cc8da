"""Validation of topic names."""

import re

from metadata.protocol import ErrorCode, KafkaError

CLUSTER_METADATA_TOPIC = "__cluster_metadata"
MAX_NAME_LENGTH = 249  # a file name can have it with "-<partition>" and a suffix for deletion appended
_LEGAL = re.compile(r"[a-zA-Z0-9._-]*")


def validate_topic_name(name: str) -> None:
    """Raises KafkaError INVALID_TOPIC_EXCEPTION with Kafka's message."""
    if reason := _reason_invalid(name):
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def _reason_invalid(name: str) -> str | None:
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    if not _LEGAL.fullmatch(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None
