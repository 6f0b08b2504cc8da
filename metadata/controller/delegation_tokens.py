"""Delegation tokens: created, renewed and expired by their owners and renewers (KIP-48)."""

from collections.abc import Sequence
from typing import Final

import attrs

from kraft import lazy_attrs
from metadata.configuration import BrokerConfigs
from metadata.configuration.definition import Password
from metadata.configuration.settings import from_key
from metadata.controller.decision import Decision
from metadata.controller.feature_levels import METADATA_VERSION, TOKEN_RECORDS, TOKENS_SINCE
from metadata.controller.known_records import check_nodes_know
from metadata.image import DelegationToken, MetadataImage
from metadata.protocol import ErrorCode, KafkaError
from metadata.protocol.delegation_tokens import token_hmac
from metadata.records import MetadataRecord, RemoveDelegationTokenRecord

_INT64_MAX: Final = 2**63 - 1
_USER: Final = "User:"
# Kafka has none of these bounds. Tokens stay in the metadata of every node until they expire, and any client that has
# authenticated can create them.
OWNED_TOKENS_MAX: Final = 10_000
RENEWERS_MAX: Final = 100
_NAME_LENGTH_MAX: Final = 1_000
# Tokens that are removed together.
_REMOVED_AT_ONCE: Final = 1_000


@lazy_attrs.frozen(kw_only=True)
class DelegationTokenConfig:
    """Kafka's configs `delegation.token...`. Without a secret key, there are no tokens."""

    secret_key: Password | None = from_key(BrokerConfigs.delegation_token_secret_key)
    max_lifetime_ms: int = from_key(BrokerConfigs.delegation_token_max_lifetime_ms)
    expiry_time_ms: int = from_key(BrokerConfigs.delegation_token_expiry_time_ms)


@lazy_attrs.frozen
class NewDelegationToken:
    """The request for a token. `owner` and `renewers` are principals, such as "User:alice".

    `max_lifetime_ms` is the longest time with renewals; the configured one if it is not positive.
    """

    owner: str
    requester: str
    renewers: Sequence[str] = ()
    max_lifetime_ms: int = -1


@lazy_attrs.frozen
class CreatedToken:
    """A token with its HMAC."""

    token: DelegationToken
    hmac: bytes = attrs.field(repr=False)


class DelegationTokensControl:
    """Decides on tokens. All methods raise KafkaError DELEGATION_TOKEN_AUTH_DISABLED without a secret key.

    `now_ms` is the wall clock. Tokens are found by their HMACs; those of the image are kept, since each takes 2 µs.
    """

    def __init__(self, config: DelegationTokenConfig) -> None:
        self._config = config
        self._hmacs: dict[str, bytes] = {}
        self._ids: dict[bytes, str] = {}

    def create(
        self, image: MetadataImage, wanted: NewDelegationToken, token_id: str, now_ms: int
    ) -> Decision[CreatedToken]:
        """Create a token with this new id.

        Raises KafkaError INVALID_PRINCIPAL_TYPE for an owner or a renewer who is no user, INVALID_REQUEST and
        POLICY_VIOLATION beyond the bounds, UNSUPPORTED_VERSION while a node does not know the record.
        """
        secret_key = self._secret_key()
        _check_supported(image)
        _check_principals(wanted)
        if (image.delegation_tokens.counts.get(wanted.owner) or 0) >= OWNED_TOKENS_MAX:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION, f"An owner has at most {OWNED_TOKENS_MAX} delegation tokens at a time."
            )
        lifetime_ms = self._config.max_lifetime_ms
        if wanted.max_lifetime_ms > 0:
            lifetime_ms = min(lifetime_ms, wanted.max_lifetime_ms)
        max_ms = _later(now_ms, lifetime_ms)
        expires_ms = min(max_ms, _later(now_ms, self._config.expiry_time_ms))
        renewers = tuple(dict.fromkeys(wanted.renewers))
        token = DelegationToken(token_id, wanted.owner, wanted.requester, renewers, now_ms, max_ms, expires_ms)
        return Decision([token.record()], CreatedToken(token, token_hmac(secret_key, token_id)))

    def renew(self, image: MetadataImage, principal: str, hmac: bytes, period_ms: int, now_ms: int) -> Decision[int]:
        """Set a later expiration, and return it. Raises KafkaError DELEGATION_TOKEN_NOT_FOUND, _EXPIRED, and
        _OWNER_MISMATCH if the principal may not renew the token.
        """
        token = self._find(image, hmac)
        _check_valid(token, now_ms)
        _check_renewer(token, principal)
        longest_ms = self._config.expiry_time_ms
        period_ms = min(longest_ms, period_ms) if period_ms > 0 else longest_ms
        return _with_expiration(token, _later(now_ms, period_ms))

    def expire(self, image: MetadataImage, principal: str, hmac: bytes, period_ms: int, now_ms: int) -> Decision[int]:
        """Set the time after which the token expires, and return it; with a negative period, remove the token.

        Raises KafkaError as `renew` does. A token that has expired can be removed.
        """
        token = self._find(image, hmac)
        _check_renewer(token, principal)
        if period_ms < 0:
            return Decision([RemoveDelegationTokenRecord(token_id=token.token_id)], now_ms)
        _check_valid(token, now_ms)
        return _with_expiration(token, _later(now_ms, period_ms))

    def remove_expired(self, image: MetadataImage, now_ms: int) -> Decision[bool]:
        """Remove expired tokens. The response is true if there may be more of them."""
        expired = [token.token_id for token in image.delegation_tokens.by_id.values() if token.is_expired(now_ms)]
        removed: list[MetadataRecord] = [
            RemoveDelegationTokenRecord(token_id=token_id) for token_id in expired[:_REMOVED_AT_ONCE]
        ]
        return Decision(removed, len(expired) > _REMOVED_AT_ONCE)

    def _find(self, image: MetadataImage, hmac: bytes) -> DelegationToken:
        secret_key = self._secret_key()
        _check_supported(image)
        tokens = image.delegation_tokens.by_id
        if hmac not in self._ids or len(self._hmacs) > 2 * len(tokens):
            self._follow(image, secret_key)
        token = tokens.get(self._ids.get(hmac, ""))
        if token is None:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND, "Delegation Token is not found on server.")
        return token

    def _follow(self, image: MetadataImage, secret_key: str) -> None:
        """Have the HMACs of all tokens of the image, and no others."""
        known = self._hmacs
        self._hmacs = {
            token_id: known.get(token_id) or token_hmac(secret_key, token_id)
            for token_id in image.delegation_tokens.by_id
        }
        self._ids = {hmac: token_id for token_id, hmac in self._hmacs.items()}

    def _secret_key(self) -> str:
        key = self._config.secret_key
        if key is None or not key.value:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, "Delegation Token feature is not enabled.")
        return key.value


def _check_supported(image: MetadataImage) -> None:
    if image.features.get(METADATA_VERSION, 0) < TOKENS_SINCE:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support delegation tokens"
        )
    check_nodes_know(image, TOKEN_RECORDS, "delegation tokens")


def _check_principals(wanted: NewDelegationToken) -> None:
    # A holder of the token authenticates as a user with the owner's name, whatever the owner's type is.
    if not all(principal.startswith(_USER) for principal in (wanted.owner, *wanted.renewers)):
        raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE, "Supplied principalType is not supported.")
    if len(wanted.renewers) > RENEWERS_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"A delegation token has at most {RENEWERS_MAX} renewers.")
    if max(map(len, (wanted.owner, *wanted.renewers))) > _NAME_LENGTH_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"A principal has at most {_NAME_LENGTH_MAX} characters.")


def _check_valid(token: DelegationToken, now_ms: int) -> None:
    if token.is_expired(now_ms):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED, "Delegation Token is expired.")


def _check_renewer(token: DelegationToken, principal: str) -> None:
    if not token.is_renewed_by(principal):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, "Specified Principal is not valid Owner/Renewer.")


def _with_expiration(token: DelegationToken, expires_ms: int) -> Decision[int]:
    changed = attrs.evolve(token, expires_ms=min(token.max_ms, expires_ms))
    return Decision([changed.record()], changed.expires_ms)


def _later(now_ms: int, period_ms: int) -> int:
    return min(now_ms + period_ms, _INT64_MAX)
