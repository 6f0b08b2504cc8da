"""SCRAM credentials of users, described and altered (KIP-554)."""

from collections.abc import Iterable
from typing import Final, NamedTuple

import attrs

from broker.client.admin.routing import Deadline, Routing
from broker.client.brokers import Broker
from broker.client.errors import WrongValue, check
from broker.client.results import Results, outcome_of
from broker.wire.api.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from broker.wire.api.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from metadata.protocol import ScramMechanism
from metadata.protocol.scram import ITERATIONS_MAX, ITERATIONS_MIN, salted_password

_SALT_BYTES: Final = 24


class ScramCredential(NamedTuple):
    """A credential of a user, without its secret."""

    mechanism: ScramMechanism
    iterations: int


@attrs.frozen
class ScramUpsertion:
    """A new password of a user for one mechanism. More iterations make guessing it take longer, and logging in too."""

    user: str
    mechanism: ScramMechanism
    password: str = attrs.field(repr=False)
    iterations: int = ITERATIONS_MIN


@attrs.frozen
class ScramDeletion:
    """The removal of a user's credential for one mechanism."""

    user: str
    mechanism: ScramMechanism


class ScramCredentialCalls(Routing):
    """Calls on SCRAM credentials."""

    async def alter_user_scram_credentials(
        self, alterations: Iterable[ScramUpsertion | ScramDeletion], *, timeout_ms: float | None = None
    ) -> Results[str, None]:
        """Sets and removes credentials. Returns an outcome per user.

        One call changes one credential of a user; the error of a user with several is DUPLICATE_RESOURCE. Passwords are
        not sent: the broker gets what is derived from them.
        """
        wanted = list(alterations)
        deletions = [
            ScramCredentialDeletion(name=each.user, mechanism=each.mechanism)
            for each in wanted
            if isinstance(each, ScramDeletion)
        ]
        upsertions = [self._upsertion(each) for each in wanted if isinstance(each, ScramUpsertion)]
        if not wanted:
            return Results({})

        async def ask(broker: Broker, deadline: Deadline) -> Results[str, None]:
            response: AlterUserScramCredentialsResponse = await broker.call(
                AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)
            )
            return Results(
                {each.user: outcome_of(each.error_code, each.error_message, None) for each in response.results}
            )

        return await self._ask_controller(ask, timeout_ms)

    def _upsertion(self, wanted: ScramUpsertion) -> ScramCredentialUpsertion:
        if not ITERATIONS_MIN <= wanted.iterations <= ITERATIONS_MAX:
            raise WrongValue(f"iterations are between {ITERATIONS_MIN} and {ITERATIONS_MAX}, not {wanted.iterations}")
        if not wanted.password or wanted.mechanism is ScramMechanism.UNKNOWN:
            raise WrongValue("a credential needs a password, and SCRAM_SHA_256 or SCRAM_SHA_512 as its mechanism")
        salt = self._cluster.environment.secure_rng.randbytes(_SALT_BYTES)
        try:
            salted = salted_password(wanted.mechanism, wanted.password, salt, wanted.iterations)
        except UnicodeEncodeError:
            raise WrongValue("a password has characters that UTF-8 does not have") from None
        return ScramCredentialUpsertion(
            name=wanted.user,
            mechanism=wanted.mechanism,
            iterations=wanted.iterations,
            salt=salt,
            salted_password=salted,
        )

    async def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None, *, timeout_ms: float | None = None
    ) -> Results[str, list[ScramCredential]]:
        """Returns the credentials of users (None: of all). The error of a user without any is RESOURCE_NOT_FOUND."""
        names = None if users is None else [UserName(name=user) for user in users]
        if names == []:
            return Results({})

        async def ask(broker: Broker, deadline: Deadline) -> Results[str, list[ScramCredential]]:
            response: DescribeUserScramCredentialsResponse = await broker.call(
                DescribeUserScramCredentialsRequest(users=names)
            )
            check(response.error_code, response.error_message)
            return Results(
                {
                    result.user: outcome_of(
                        result.error_code,
                        result.error_message,
                        [
                            ScramCredential(ScramMechanism(each.mechanism), each.iterations)
                            for each in result.credential_infos
                        ],
                    )
                    for result in response.results
                }
            )

        return await self._ask_any(ask, timeout_ms)
