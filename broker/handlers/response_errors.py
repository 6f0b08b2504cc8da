"""The boundary where errors become the error codes and messages of responses."""

from broker.wire.errors import ErrorCode, KafkaError


def code_of(error: KafkaError | None) -> ErrorCode:
    return ErrorCode.NONE if error is None else error.code


def message_of(error: KafkaError | None) -> str | None:
    return None if error is None else error.message or None
