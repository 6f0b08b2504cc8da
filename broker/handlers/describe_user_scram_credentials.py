"""DescribeUserScramCredentials (key 50): no user has SCRAM credentials yet (KIP-554)."""

from collections import Counter
from typing import Any

from broker.handlers.response_errors import code_of, message_of
from broker.server.context import Context
from broker.server.handler import SMALL_REQUEST_BYTES_MAX, Handler
from broker.wire.api.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from broker.wire.errors import MESSAGE_LENGTH_MAX, ErrorCode, KafkaError
from metadata.protocol import AclOperation


def describe_user_scram_credentials(
    context: Context[Any], request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    times_asked = Counter(user.name for user in request.users or ())
    results = [_unknown(name) if times == 1 else _repeated(name) for name, times in times_asked.items()]
    return DescribeUserScramCredentialsResponse(results=results)


def _unknown(name: str) -> DescribeUserScramCredentialsResult:
    message = f"Attempt to describe a user credential that does not exist: {name}"
    return _refused(name, ErrorCode.RESOURCE_NOT_FOUND, message)


def _repeated(name: str) -> DescribeUserScramCredentialsResult:
    message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
    return _refused(name, ErrorCode.DUPLICATE_RESOURCE, message)


def _refused(name: str, code: ErrorCode, message: str) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(user=name, error_code=code, error_message=message[:MESSAGE_LENGTH_MAX])


def refused(
    context: Context[Any], request: DescribeUserScramCredentialsRequest, error: KafkaError
) -> DescribeUserScramCredentialsResponse:
    return DescribeUserScramCredentialsResponse(error_code=code_of(error), error_message=message_of(error))


HANDLER = Handler(
    DescribeUserScramCredentialsRequest,
    describe_user_scram_credentials,
    request_bytes_max=SMALL_REQUEST_BYTES_MAX,
    refused=refused,
    operation=AclOperation.DESCRIBE,
)
