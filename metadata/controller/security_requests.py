"""The controller's requests about who may use the cluster."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, Protocol, TypeVar

from kraft.env import Env
from metadata.controller.acls import create_acls, delete_acls
from metadata.controller.decision import Decision
from metadata.controller.delegation_tokens import (
    CreatedToken,
    DelegationTokenConfig,
    DelegationTokensControl,
    NewDelegationToken,
)
from metadata.controller.portions import in_portions
from metadata.controller.scram import ScramAlteration, ScramOutcome, alter_user_scram_credentials
from metadata.ids import random_uuid, uuid_text
from metadata.image import AccessControlEntry, MetadataImage
from metadata.protocol import KafkaError
from metadata.request_context import Requester

A = TypeVar("A")
T = TypeVar("T")

# Entries that are decided together, in some 5 ms.
ENTRIES_AT_ONCE: Final = 500


class Write(Protocol):
    """Appends the records of a decision, and returns its response once they are committed."""

    async def __call__(
        self,
        api: str,
        decide: Callable[[MetadataImage], Decision[T]],
        validate_only: bool = False,
        context: Requester = None,
    ) -> T: ...


class WritePortions(Protocol):
    """Like `Write`, with one decision for each portion of a request."""

    async def __call__(
        self,
        api: str,
        portions: Iterable[Sequence[A]],
        decide: Callable[[MetadataImage, Sequence[A]], Decision[list[T]]],
        validate_only: bool = False,
        context: Requester = None,
    ) -> list[T]: ...


class SecurityRequests:
    """Serves requests as `Controller` does, and raises KafkaError NOT_CONTROLLER like its methods."""

    def __init__(self, write: Write, write_portions: WritePortions, env: Env, tokens: DelegationTokenConfig) -> None:
        self._write, self._write_portions, self._env = write, write_portions, env
        self._tokens = DelegationTokensControl(tokens)

    async def create_acls(
        self, entries: Sequence[AccessControlEntry], *, context: Requester = None
    ) -> list[KafkaError | None]:
        """Return an error or None for each entry, in order."""
        portions = (entries[first : first + ENTRIES_AT_ONCE] for first in range(0, len(entries), ENTRIES_AT_ONCE))
        return await self._write_portions(
            "CreateAcls", portions, partial(create_acls, rng=self._env.rng), context=context
        )

    async def delete_acls(self, ids: Sequence[bytes], *, context: Requester = None) -> None:
        """Remove the entries with these ids, all at once."""
        await self._write("DeleteAcls", partial(delete_acls, ids=ids), context=context)

    async def alter_user_scram_credentials(
        self, alterations: Sequence[ScramAlteration], *, context: Requester = None
    ) -> list[ScramOutcome]:
        """Return one result per user, with repeated users last (KIP-554)."""
        portions = in_portions(alterations, lambda alteration: alteration.user)
        return await self._write_portions(
            "AlterUserScramCredentials", portions, alter_user_scram_credentials, context=context
        )

    async def create_delegation_token(self, wanted: NewDelegationToken, *, context: Requester = None) -> CreatedToken:
        """Create a token, and return it with its HMAC. Raises KafkaError as `DelegationTokensControl.create` does."""
        token_id = uuid_text(random_uuid(self._env.rng))

        def decide(image: MetadataImage) -> Decision[CreatedToken]:
            return self._tokens.create(image, wanted, token_id, self._now_ms())

        return await self._write("CreateDelegationToken", decide, context=context)

    async def renew_delegation_token(
        self, principal: str, hmac: bytes, period_ms: int, *, context: Requester = None
    ) -> int:
        """Return the new expiration. Raises KafkaError as `DelegationTokensControl.renew` does."""

        def decide(image: MetadataImage) -> Decision[int]:
            return self._tokens.renew(image, principal, hmac, period_ms, self._now_ms())

        return await self._write("RenewDelegationToken", decide, context=context)

    async def expire_delegation_token(
        self, principal: str, hmac: bytes, period_ms: int, *, context: Requester = None
    ) -> int:
        """Return the new expiration. Raises KafkaError as `DelegationTokensControl.expire` does."""

        def decide(image: MetadataImage) -> Decision[int]:
            return self._tokens.expire(image, principal, hmac, period_ms, self._now_ms())

        return await self._write("ExpireDelegationToken", decide, context=context)

    async def remove_expired_tokens(self) -> None:
        """Remove all expired tokens. Raises KafkaError NOT_CONTROLLER."""

        def decide(image: MetadataImage) -> Decision[bool]:
            return self._tokens.remove_expired(image, self._now_ms())

        while await self._write("delegation tokens have expired", decide):
            pass

    def _now_ms(self) -> int:
        return int(self._env.wall() * 1000)
