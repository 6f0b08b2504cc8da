"""The boundary where the controller's errors become Kafka's codes."""

from broker.wire.errors import ErrorCode
from metadata.errors import ApiError


def code_of(error: ApiError | None) -> ErrorCode:
    return ErrorCode.NONE if error is None else ErrorCode[error.name]


def message_of(error: ApiError | None) -> str | None:
    return None if error is None else error.message


def refusal(error: ApiError) -> tuple[ErrorCode, str]:
    """What every part of a request is told that was refused as a whole."""
    return code_of(error), error.message
