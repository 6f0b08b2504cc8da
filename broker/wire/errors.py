"""The errors of the wire: bytes that violate the protocol, and the protocol's own error codes."""

from metadata.protocol import MESSAGE_LENGTH_MAX, ErrorCode, KafkaError

__all__ = ["MESSAGE_LENGTH_MAX", "ErrorCode", "KafkaError", "WireError"]


class WireError(ValueError):
    """Bytes from outside violate the protocol, or the protocol cannot express a message."""
