"""Delegation tokens: by one, its holder acts as its owner, without the owner's password (KIP-48)."""

from base64 import b64encode
from collections.abc import Iterable
from typing import Final

import attrs

from broker.client.admin.routing import Deadline, Routing
from broker.client.brokers import Broker
from broker.client.errors import WrongValue, check
from broker.wire.api.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from broker.wire.api.describe_delegation_token import (
    DescribedDelegationToken,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from broker.wire.api.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from broker.wire.api.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

# The configured time of the brokers; as the period of an expiration, now.
_DEFAULT: Final = -1


@attrs.frozen
class DelegationToken:
    """A token. Principals are text, such as "User:alice"; times are in ms since 1970.

    A client authenticates with SCRAM, with the token's id as the user name, the HMAC in Base64 as the password, and the
    option `tokenauth=true`. The token ends at `expiry_timestamp_ms` unless it is renewed, and at `max_timestamp_ms`.
    """

    token_id: str
    hmac: bytes = attrs.field(repr=False)
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp_ms: int
    expiry_timestamp_ms: int
    max_timestamp_ms: int

    @property
    def hmac_base64(self) -> str:
        """The HMAC in Base64: the password of a client that authenticates with the token."""
        return b64encode(self.hmac).decode()


class DelegationTokenCalls(Routing):
    """Calls on delegation tokens. Clients that are anonymous, or use a token themselves, may not make them."""

    async def create_delegation_token(
        self,
        *,
        owner: str | None = None,
        renewers: Iterable[str] = (),
        max_lifetime_ms: int | None = None,
        timeout_ms: float | None = None,
    ) -> DelegationToken:
        """Creates a token of `owner`, by default of this client. Raises KafkaError.

        `renewers` may renew it besides its owner. It lasts for `max_lifetime_ms` at most, with all renewals.
        """
        names = tuple(renewers)
        made = [
            CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in map(_split_principal, names)
        ]
        owner_type, owner_name = (None, None) if owner is None else _split_principal(owner)

        async def ask(broker: Broker, deadline: Deadline) -> DelegationToken:
            request = CreateDelegationTokenRequest(
                owner_principal_type=owner_type,
                owner_principal_name=owner_name,
                renewers=made,
                max_lifetime_ms=_DEFAULT if max_lifetime_ms is None else max_lifetime_ms,
            )
            response: CreateDelegationTokenResponse = await broker.call(request)
            check(response.error_code)
            return _created(response, names)

        return await self._ask_any(ask, timeout_ms)

    async def renew_delegation_token(
        self, hmac: bytes, *, renew_period_ms: int | None = None, timeout_ms: float | None = None
    ) -> int:
        """Renews a token for a time, by default the brokers' one, and returns when it expires. Raises KafkaError."""

        async def ask(broker: Broker, deadline: Deadline) -> int:
            period_ms = _DEFAULT if renew_period_ms is None else renew_period_ms
            response: RenewDelegationTokenResponse = await broker.call(
                RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
            )
            check(response.error_code)
            return response.expiry_timestamp_ms

        return await self._ask_any(ask, timeout_ms)

    async def expire_delegation_token(
        self, hmac: bytes, *, expiry_period_ms: int | None = None, timeout_ms: float | None = None
    ) -> int:
        """Has a token expire after a time, by default at once, and returns when it expires. Raises KafkaError."""

        async def ask(broker: Broker, deadline: Deadline) -> int:
            period_ms = _DEFAULT if expiry_period_ms is None else expiry_period_ms
            response: ExpireDelegationTokenResponse = await broker.call(
                ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
            )
            check(response.error_code)
            return response.expiry_timestamp_ms

        return await self._ask_any(ask, timeout_ms)

    async def describe_delegation_tokens(
        self, owners: Iterable[str] | None = None, *, timeout_ms: float | None = None
    ) -> list[DelegationToken]:
        """Returns the tokens of owners (None: of all) that this client may see. Raises KafkaError."""
        named = None
        if owners is not None:
            named = [
                DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
                for kind, name in map(_split_principal, owners)
            ]

        async def ask(broker: Broker, deadline: Deadline) -> list[DelegationToken]:
            response: DescribeDelegationTokenResponse = await broker.call(DescribeDelegationTokenRequest(owners=named))
            check(response.error_code)
            return [_described(token) for token in response.tokens]

        return await self._ask_any(ask, timeout_ms)


def _split_principal(principal: str) -> tuple[str, str]:
    kind, colon, name = principal.partition(":")
    if not colon or not kind or not name:
        raise WrongValue(f"a principal is written as User:alice, not {principal!r}")
    return kind, name


def _created(response: CreateDelegationTokenResponse, renewers: tuple[str, ...]) -> DelegationToken:
    owner = f"{response.principal_type}:{response.principal_name}"
    requester = f"{response.token_requester_principal_type}:{response.token_requester_principal_name}"
    return DelegationToken(
        token_id=response.token_id,
        hmac=bytes(response.hmac),
        owner=owner,
        requester=owner if requester == ":" else requester,  # before version 3, both are the same
        renewers=renewers,
        issue_timestamp_ms=response.issue_timestamp_ms,
        expiry_timestamp_ms=response.expiry_timestamp_ms,
        max_timestamp_ms=response.max_timestamp_ms,
    )


def _described(token: DescribedDelegationToken) -> DelegationToken:
    owner = f"{token.principal_type}:{token.principal_name}"
    requester = f"{token.token_requester_principal_type}:{token.token_requester_principal_name}"
    return DelegationToken(
        token_id=token.token_id,
        hmac=bytes(token.hmac),
        owner=owner,
        requester=owner if requester == ":" else requester,
        renewers=tuple(f"{each.principal_type}:{each.principal_name}" for each in token.renewers),
        issue_timestamp_ms=token.issue_timestamp,
        expiry_timestamp_ms=token.expiry_timestamp,
        max_timestamp_ms=token.max_timestamp,
    )
