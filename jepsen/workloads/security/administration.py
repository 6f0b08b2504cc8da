"""An administrator that changes access control entries and passwords, and reads them at every broker."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from random import Random
from typing import Any, Final, TypeAlias

import attrs
import trio

from broker.client import ConnectionLost
from broker.wire.api.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from broker.wire.api.create_acls import AclCreation, CreateAclsRequest
from broker.wire.api.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from broker.wire.api.describe_acls import DescribeAclsRequest
from broker.wire.api.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from broker.wire.errors import ErrorCode
from jepsen.history import Operation
from jepsen.values import SETTLED_SECONDS, AclChange, CredentialChange, SeenCredentials
from jepsen.workloads.client import Client
from jepsen.workloads.security.requests import STRANGER
from jepsen.workloads.security.users import MECHANISMS, Users
from metadata.image import AccessControlEntry
from metadata.protocol import AclOperation, AclPermission, PatternType, ResourceType, ScramMechanism
from metadata.protocol.scram import ITERATIONS_MAX, ITERATIONS_MIN, salted_password

# The user whose iterations are the numbers of marks, counted from the least that is allowed.
MARKED_USER: Final = "mark"
_MARKS_MAX: Final = ITERATIONS_MAX - ITERATIONS_MIN
# More iterations cost the clients of a run more time.
_ITERATIONS: Final = (ITERATIONS_MIN, ITERATIONS_MIN + 1, 5_000)
_TOO_FEW: Final = (1, 1_000, ITERATIONS_MIN - 1)
_SALT_BYTES: Final = 16
# The share of entries that exist at first.
_FIRST_SHARE: Final = 0.7
# Shares of changes: of credentials instead of entries, with too few iterations, and removals of credentials.
_CREDENTIALS_SHARE: Final = 0.3
_TOO_FEW_SHARE: Final = 0.1
_REMOVAL_SHARE: Final = 0.3

_Key: TypeAlias = AccessControlEntry | tuple[str, ScramMechanism]
_Ask: TypeAlias = Callable[[], tuple[Any, int, Callable[[Any], int]]]


class SecurityAdministrator:
    """Adds and removes the entries of `pool`, and sets and removes the passwords of `users`.

    It repeats each change until it is acknowledged. An unacknowledged request may still take effect for some time: in
    that time it does not change the same entry or credential to something else.
    """

    def __init__(self, client: Client, pool: Sequence[AccessControlEntry], users: Users) -> None:
        self._client = client
        self._pool = pool
        self._users = users
        self._present: dict[AccessControlEntry, bool] = dict.fromkeys(pool, False)
        self._passwords: dict[tuple[str, ScramMechanism], str | None] = {}
        self._settled_at: dict[_Key, float] = {}
        self._serial = 0

    async def prepare(self) -> None:
        """Set a password of each user for each mechanism, and add most of the entries."""
        for user in self._users.names:
            for mechanism in MECHANISMS:
                await self._set_password(user, mechanism)
        for entry in self._pool:
            if self._client.rng.random() < _FIRST_SHARE:
                await self._change_entry(entry)

    async def run(self, per_second: float) -> None:
        """Change entries and credentials until cancelled."""
        rng = self._client.rng
        async with aclosing(self._client):
            while True:
                await self._client.pause(per_second)
                if rng.random() >= _CREDENTIALS_SHARE:
                    await self._change_any_entry(rng)
                elif rng.random() < _TOO_FEW_SHARE:
                    await self._set_too_few_iterations(rng)
                else:
                    await self._change_any_credential(rng)

    async def _change_any_entry(self, rng: Random) -> None:
        settled = [each for each in self._pool if self._is_settled(each)]
        if settled:
            await self._change_entry(rng.choice(settled))

    async def _change_any_credential(self, rng: Random) -> None:
        """A user without a password gets one soon, so that most of the clients can work."""
        settled = [key for key in self._passwords if self._is_settled(key)]
        removed = [key for key in settled if self._passwords[key] is None]
        if not settled:
            return
        user, mechanism = rng.choice(removed or settled)
        if not removed and rng.random() < _REMOVAL_SHARE:
            await self._remove_password(user, mechanism)
        else:
            await self._set_password(user, mechanism)

    def _is_settled(self, key: _Key) -> bool:
        return trio.current_time() >= self._settled_at.get(key, 0.0)

    async def _change_entry(self, entry: AccessControlEntry) -> None:
        """Add the entry, or remove it if it is there."""
        is_added = not self._present[entry]
        request, code_of = (_addition(entry), _code_of_addition) if is_added else (_removal(entry), _code_of_removal)
        await self._repeat("change-acl", entry, AclChange(entry, is_added), lambda: (request, 3, code_of))
        self._present[entry] = is_added

    async def _set_password(self, user: str, mechanism: ScramMechanism) -> None:
        self._serial += 1
        password, iterations = f"{user}-{self._serial}", self._client.rng.choice(_ITERATIONS)
        self._users.has_password(user, mechanism, password)
        change = CredentialChange(user, mechanism, password, iterations)
        request = _upsertion(change, self._client.rng)
        await self._repeat("change-credential", (user, mechanism), change, lambda: (request, 0, _code_of_alteration))
        self._passwords[user, mechanism] = password

    async def _remove_password(self, user: str, mechanism: ScramMechanism) -> None:
        request = AlterUserScramCredentialsRequest(
            deletions=[ScramCredentialDeletion(name=user, mechanism=mechanism)], upsertions=[]
        )
        change = CredentialChange(user, mechanism, None)
        await self._repeat("change-credential", (user, mechanism), change, lambda: (request, 0, _code_of_alteration))
        self._passwords[user, mechanism] = None

    async def _repeat(self, function: str, key: _Key, value: object, ask: _Ask) -> None:
        """Send the request until it is acknowledged."""
        while True:
            operation = self._client.history.invoke(self._client.name, function, value)
            code = await _attempt(self._client, operation, *ask())
            # A credential that does not exist any more was removed by an earlier attempt.
            if code in (ErrorCode.NONE, ErrorCode.RESOURCE_NOT_FOUND):
                self._client.history.ok(operation, None)
                return
            self._client.history.info(operation, "no response" if code is None else code.name)
            self._settled_at[key] = operation.invoked_at + SETTLED_SECONDS
            await self._client.back_off()

    async def _set_too_few_iterations(self, rng: Random) -> None:
        """Try once to set a password with too few iterations, for a user who has no other."""
        change = CredentialChange("weak", rng.choice(MECHANISMS), "weak", rng.choice(_TOO_FEW))
        operation = self._client.history.invoke(self._client.name, "change-credential", change)
        code = await _attempt(self._client, operation, _upsertion(change, rng), 0, _code_of_alteration)
        if code is ErrorCode.NONE:
            self._client.history.ok(operation, None)
        elif code is ErrorCode.UNACCEPTABLE_CREDENTIAL:
            self._client.history.fail(operation, code.name)
        else:
            self._client.history.info(operation, "no response" if code is None else code.name)


async def administer(client: Client, pool: Sequence[AccessControlEntry], users: Users, per_second: float) -> None:
    """Make the users' first rights and passwords, and change them until cancelled."""
    administrator = SecurityAdministrator(client, pool, users)
    await administrator.prepare()
    await administrator.run(per_second)


@attrs.define
class Marks:
    """The number of the last mark."""

    last: int = 0


async def set_marks(client: Client, marks: Marks, per_second: float) -> None:
    """Set marks until cancelled."""
    async with aclosing(client):
        while True:
            await set_mark(client, marks)
            await client.pause(per_second)


async def set_mark(client: Client, marks: Marks) -> bool:
    """Try once to set the next mark. Returns True if it succeeded."""
    marks.last += 1
    assert marks.last <= _MARKS_MAX, "more marks than there are numbers of iterations"
    operation = client.history.invoke(client.name, "mark", marks.last)
    upsertion = ScramCredentialUpsertion(
        name=MARKED_USER,
        mechanism=MECHANISMS[0],
        iterations=ITERATIONS_MIN + marks.last,
        salt=b"salt",
        salted_password=b"no client has the password",
    )
    request = AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion])
    code = await _attempt(client, operation, request, 0, _code_of_alteration)
    if code is ErrorCode.NONE:
        client.history.ok(operation, None)
    else:
        client.history.info(operation, "no response" if code is None else code.name)
    return code is ErrorCode.NONE


async def audit(client: Client, broker: str, users: Users, per_second: float) -> None:
    """Read the credentials and the entries that one broker knows, until cancelled. `client` connects to this broker."""
    async with aclosing(client):
        while True:
            await audit_once(client, broker, users)
            await client.pause(per_second)


async def audit_once(client: Client, broker: str, users: Users) -> int:
    """Read both once. Returns the number of the last mark that the broker knows; -1 if it does not answer."""
    history = client.history
    operation = history.invoke(client.name, "see-credentials", broker)
    try:
        async with client.connected() as connection:
            response = await connection.call(DescribeUserScramCredentialsRequest(users=None), 0)
            seen = _seen_credentials(response, users)
            history.ok(operation, seen)
            operation = history.invoke(client.name, "see-acls", broker)
            acls = await connection.call(_ALL_ACLS, 3)
            history.ok(operation, _entries(acls))
            return seen.mark
    except ConnectionLost as error:
        history.info(operation, str(error))
        await client.back_off()
        return -1


def _seen_credentials(response: Any, users: Users) -> SeenCredentials:
    seen: Mapping[tuple[str, ScramMechanism], int] = {
        (result.user, ScramMechanism(info.mechanism)): info.iterations
        for result in response.results
        for info in result.credential_infos
    }
    mark = seen.get((MARKED_USER, MECHANISMS[0]), ITERATIONS_MIN) - ITERATIONS_MIN
    of_users = ((user, mechanism, iterations) for (user, mechanism), iterations in seen.items() if user in users.names)
    return SeenCredentials(mark, tuple(of_users))


async def _attempt(
    client: Client, operation: Operation, request: Any, version: int, code_of: Callable[[Any], int]
) -> ErrorCode | None:
    """The error code of a response; None without a response."""
    try:
        async with client.connected() as connection:
            return ErrorCode(code_of(await connection.call(request, version)))
    except ConnectionLost:
        return None


def _code_of_alteration(response: Any) -> int:
    (result,) = response.results
    return int(result.error_code)


def _code_of_addition(response: Any) -> int:
    (result,) = response.results
    return int(result.error_code)


def _code_of_removal(response: Any) -> int:
    (result,) = response.filter_results
    return int(result.error_code)


def _upsertion(change: CredentialChange, rng: Random) -> AlterUserScramCredentialsRequest:
    assert change.password is not None, "a password to set"
    salt = rng.randbytes(_SALT_BYTES)
    upsertion = ScramCredentialUpsertion(
        name=change.user,
        mechanism=change.mechanism,
        iterations=change.iterations,
        salt=salt,
        salted_password=salted_password(change.mechanism, change.password, salt, change.iterations),
    )
    return AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion])


def _addition(entry: AccessControlEntry) -> CreateAclsRequest:
    creation = AclCreation(
        resource_type=entry.resource_type,
        resource_name=entry.resource_name,
        resource_pattern_type=entry.pattern_type,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission,
    )
    return CreateAclsRequest(creations=[creation])


def _removal(entry: AccessControlEntry) -> DeleteAclsRequest:
    only = DeleteAclsFilter(
        resource_type_filter=entry.resource_type,
        resource_name_filter=entry.resource_name,
        pattern_type_filter=entry.pattern_type,
        principal_filter=entry.principal,
        host_filter=entry.host,
        operation=entry.operation,
        permission_type=entry.permission,
    )
    return DeleteAclsRequest(filters=[only])


_ALL_ACLS: Final = DescribeAclsRequest(
    resource_type_filter=ResourceType.ANY,
    resource_name_filter=None,
    pattern_type_filter=PatternType.ANY,
    principal_filter=None,
    host_filter=None,
    operation=AclOperation.ANY,
    permission_type=AclPermission.ANY,
)


def _entries(response: Any) -> tuple[AccessControlEntry, ...]:
    """The entries of the administrator. Clients that may do so create entries of another principal."""
    return tuple(
        AccessControlEntry(
            ResourceType(resource.resource_type),
            resource.resource_name,
            PatternType(resource.pattern_type),
            acl.principal,
            acl.host,
            AclOperation(acl.operation),
            AclPermission(acl.permission_type),
        )
        for resource in response.resources
        for acl in resource.acls
        if acl.principal != STRANGER
    )
