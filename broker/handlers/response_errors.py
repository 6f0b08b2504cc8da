"""The boundary where errors become the error codes and messages of responses."""

from typing import Any

from broker.server.context import Context, Message
from broker.server.handler import Refused
from broker.wire.errors import ErrorCode, KafkaError


def code_of(error: KafkaError | None) -> ErrorCode:
    return ErrorCode.NONE if error is None else error.code


def message_of(error: KafkaError | None) -> str | None:
    return None if error is None else error.message or None


def error_response(response: type[Any]) -> Refused:
    """Returns the `refused` of a handler whose response has an error code, and perhaps a message, for all of it."""
    has_message = any(each.name == "error_message" for each in response.__fields__)

    def refused(context: Context[Any], request: Message, error: KafkaError) -> Message:
        if has_message:
            return response(error_code=code_of(error), error_message=message_of(error))
        return response(error_code=code_of(error))

    return refused
