"""DescribeDelegationToken (key 41): the tokens that a client owns, may renew, or may describe (KIP-48, KIP-373)."""

from broker.handlers.delegation_tokens import may_use_tokens, principal_of, split_principal
from broker.server.context import BrokerContext
from broker.server.handler import Handler
from broker.server.slices import STEP_ITEMS, Steps
from broker.wire.api.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from broker.wire.errors import ErrorCode
from metadata.image import DelegationToken
from metadata.protocol import AclOperation, ResourceType
from metadata.protocol.delegation_tokens import token_hmac


def describe_delegation_token(
    context: BrokerContext, request: DescribeDelegationTokenRequest
) -> Steps[DescribeDelegationTokenResponse]:
    if not may_use_tokens(context.session):
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    secret_key = context.services.config.delegation_token_secret_key
    if secret_key is None or not secret_key.value:
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = None if request.owners is None else frozenset(map(_principal, request.owners))
    response = DescribeDelegationTokenResponse()
    for number, token in enumerate(context.services.loader.image.delegation_tokens.by_id.values()):
        is_wanted = owners is None or not owners.isdisjoint((token.owner, *token.renewers))
        if is_wanted and _may_describe(context, token):
            response.tokens.append(_described(token, token_hmac(secret_key.value, token.token_id)))
        if number % STEP_ITEMS == STEP_ITEMS - 1:
            yield
    return response


def _principal(owner: DescribeDelegationTokenOwner) -> str:
    return principal_of(owner.principal_type, owner.principal_name)


def _may_describe(context: BrokerContext, token: DelegationToken) -> bool:
    return (
        token.is_renewed_by(context.principal)
        or context.allows(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
        or context.allows(AclOperation.DESCRIBE_TOKENS, ResourceType.USER, token.owner)
    )


def _described(token: DelegationToken, hmac: bytes) -> DescribedDelegationToken:
    owner_type, owner_name = split_principal(token.owner)
    requester_type, requester_name = split_principal(token.requester)
    return DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=hmac,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=renewer_type, principal_name=name)
            for renewer_type, name in map(split_principal, token.renewers)
        ],
    )


HANDLER = Handler(DescribeDelegationTokenRequest, describe_delegation_token)
