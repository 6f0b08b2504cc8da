"""CreateDelegationToken, RenewDelegationToken and ExpireDelegationToken (keys 38 to 40): the controller decides.

A client that is anonymous, or that has itself authenticated with a token, is refused by the node that it asked
(KIP-48). A requester who is not the owner needs CREATE_TOKENS on the owner (KIP-373).
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from broker.net.listener_security import ANONYMOUS
from broker.server.context import Context, ControllerContext, Message
from broker.server.handler import SMALL_REQUEST_BYTES_MAX, Handler, OwnPart
from broker.server.scheduler import Work, in_task
from broker.server.session import Session
from broker.server.slices import Steps
from broker.wire.api.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from broker.wire.api.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from broker.wire.api.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from broker.wire.errors import ErrorCode, KafkaError
from metadata.controller import NewDelegationToken
from metadata.protocol import AclOperation, ResourceType

# The expiration in a response that refuses a request.
_NO_TIMESTAMP: Final = -1


def may_use_tokens(session: Session) -> bool:
    """True if the session's client may ask for tokens, and about them."""
    return session.principal != ANONYMOUS and not (session.sasl is not None and session.sasl.by_token)


def principal_of(principal_type: str, name: str) -> str:
    """The principal as text: "User:alice"."""
    return f"{principal_type}:{name}"


def split_principal(principal: str) -> tuple[str, str]:
    """The type and the name of a principal."""
    principal_type, _, name = principal.partition(":")
    return principal_type, name


def refuse_own_clients(context: Context[Any], request: Message) -> Steps[OwnPart | None]:
    """The response of this broker to clients that may not use tokens; None for others, whose requests it forwards."""
    yield from ()
    if may_use_tokens(context.session):
        return None

    def respond(response: Message | None) -> Steps[Message]:
        yield from ()
        return _REFUSED[type(request)](context, request, _not_allowed())

    return OwnPart(None, respond)


def create_delegation_token(
    context: ControllerContext, request: CreateDelegationTokenRequest
) -> Work[CreateDelegationTokenResponse]:
    _check_client(context)
    owner = _owner(context, request)
    if owner != context.principal and not context.allows(AclOperation.CREATE_TOKENS, ResourceType.USER, owner):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED, "Delegation Token authorization failed.")
    wanted = NewDelegationToken(
        owner,
        context.principal,
        [principal_of(each.principal_type, each.principal_name) for each in request.renewers],
        request.max_lifetime_ms,
    )
    created = yield from in_task(context.services.controller.security.create_delegation_token(wanted, context=context))
    response = _created(context, owner, ErrorCode.NONE)
    token = created.token
    response.issue_timestamp_ms, response.expiry_timestamp_ms = token.issued_ms, token.expires_ms
    response.max_timestamp_ms, response.token_id, response.hmac = token.max_ms, token.token_id, created.hmac
    return response


def refuse_creation(
    context: Context[Any], request: CreateDelegationTokenRequest, error: KafkaError
) -> CreateDelegationTokenResponse:
    response = _created(context, _owner(context, request), error.code)
    response.issue_timestamp_ms = response.expiry_timestamp_ms = response.max_timestamp_ms = _NO_TIMESTAMP
    return response


def renew_delegation_token(
    context: ControllerContext, request: RenewDelegationTokenRequest
) -> Work[RenewDelegationTokenResponse]:
    _check_client(context)
    renew = context.services.controller.security.renew_delegation_token
    expires_ms = yield from in_task(
        renew(context.principal, bytes(request.hmac), request.renew_period_ms, context=context)
    )
    return RenewDelegationTokenResponse(expiry_timestamp_ms=expires_ms)


def refuse_renewal(
    context: Context[Any], request: RenewDelegationTokenRequest, error: KafkaError
) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=_NO_TIMESTAMP)


def expire_delegation_token(
    context: ControllerContext, request: ExpireDelegationTokenRequest
) -> Work[ExpireDelegationTokenResponse]:
    _check_client(context)
    expire = context.services.controller.security.expire_delegation_token
    expires_ms = yield from in_task(
        expire(context.principal, bytes(request.hmac), request.expiry_time_period_ms, context=context)
    )
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=expires_ms)


def refuse_expiration(
    context: Context[Any], request: ExpireDelegationTokenRequest, error: KafkaError
) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=_NO_TIMESTAMP)


_REFUSED: Final[Mapping[type[Any], Callable[[Context[Any], Any, KafkaError], Message]]] = {
    CreateDelegationTokenRequest: refuse_creation,
    RenewDelegationTokenRequest: refuse_renewal,
    ExpireDelegationTokenRequest: refuse_expiration,
}


def _check_client(context: ControllerContext) -> None:
    if not may_use_tokens(context.session):
        raise _not_allowed()


def _not_allowed() -> KafkaError:
    return KafkaError(
        ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        "Delegation Token requests are not allowed on PLAINTEXT/1-way SSL channels and on delegation token "
        "authenticated channels.",
    )


def _owner(context: Context[Any], request: CreateDelegationTokenRequest) -> str:
    name = request.owner_principal_name
    return principal_of(request.owner_principal_type or "", name) if name else context.principal


def _created(context: Context[Any], owner: str, code: ErrorCode) -> CreateDelegationTokenResponse:
    owner_type, owner_name = split_principal(owner)
    requester_type, requester_name = split_principal(context.principal)
    return CreateDelegationTokenResponse(
        error_code=code,
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
    )


CREATE_HANDLER = Handler(
    CreateDelegationTokenRequest,
    create_delegation_token,
    request_bytes_max=SMALL_REQUEST_BYTES_MAX,
    refused=refuse_creation,
    forwarded=True,
    take_own_part=refuse_own_clients,
)
RENEW_HANDLER = Handler(
    RenewDelegationTokenRequest,
    renew_delegation_token,
    request_bytes_max=SMALL_REQUEST_BYTES_MAX,
    refused=refuse_renewal,
    forwarded=True,
    take_own_part=refuse_own_clients,
)
EXPIRE_HANDLER = Handler(
    ExpireDelegationTokenRequest,
    expire_delegation_token,
    request_bytes_max=SMALL_REQUEST_BYTES_MAX,
    refused=refuse_expiration,
    forwarded=True,
    take_own_part=refuse_own_clients,
)
