"""DescribeUserScramCredentials (key 50): the mechanisms and iterations of users' SCRAM credentials (KIP-554)."""

from collections import Counter
from collections.abc import Iterable

from broker.handlers.response_errors import error_response
from broker.server.context import Context
from broker.server.handler import SMALL_REQUEST_BYTES_MAX, Handler
from broker.server.services import NodeServices
from broker.server.slices import Steps, each
from broker.wire.api.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from broker.wire.errors import MESSAGE_LENGTH_MAX, ErrorCode
from metadata.image import ScramImage
from metadata.protocol import AclOperation


def describe_user_scram_credentials(
    context: Context[NodeServices], request: DescribeUserScramCredentialsRequest
) -> Steps[DescribeUserScramCredentialsResponse]:
    image = context.services.loader.image.scram
    times_asked = Counter(user.name for user in request.users or ())
    names: Iterable[str] = times_asked or image.users

    def result(name: str) -> DescribeUserScramCredentialsResult:
        return _repeated(name) if times_asked[name] > 1 else _described(image, name)

    results = yield from each(result, list(names))
    return DescribeUserScramCredentialsResponse(results=results)


def _described(image: ScramImage, name: str) -> DescribeUserScramCredentialsResult:
    credentials = image.of(name)
    if not credentials:
        message = f"Attempt to describe a user credential that does not exist: {name}"
        return _refused(name, ErrorCode.RESOURCE_NOT_FOUND, message)
    infos = [
        CredentialInfo(mechanism=mechanism, iterations=credential.iterations)
        for mechanism, credential in sorted(credentials.items())
    ]
    return DescribeUserScramCredentialsResult(user=name, error_message=None, credential_infos=infos)


def _repeated(name: str) -> DescribeUserScramCredentialsResult:
    message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
    return _refused(name, ErrorCode.DUPLICATE_RESOURCE, message)


def _refused(name: str, code: ErrorCode, message: str) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(user=name, error_code=code, error_message=message[:MESSAGE_LENGTH_MAX])


HANDLER = Handler(
    DescribeUserScramCredentialsRequest,
    describe_user_scram_credentials,
    request_bytes_max=SMALL_REQUEST_BYTES_MAX,
    refused=error_response(DescribeUserScramCredentialsResponse),
    operation=AclOperation.DESCRIBE,
)
