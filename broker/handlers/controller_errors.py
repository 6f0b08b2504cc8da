"""The boundary where the controller's errors become Kafka's codes."""

from broker.wire.errors import ErrorCode
from metadata.errors import ApiError


def code_of(error: ApiError | None) -> ErrorCode:
    return ErrorCode.NONE if error is None else ErrorCode[error.name]


def message_of(error: ApiError | None) -> str | None:
    return None if error is None else error.message
