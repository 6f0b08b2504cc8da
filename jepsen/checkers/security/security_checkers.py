"""The checkers of authentication and authorization."""

from typing import Final

from jepsen.checkers.checker import Checker
from jepsen.checkers.security.accesses import (
    AllowedRequestsAreServed,
    DeniedRequestsAreRefused,
    RefusedRequestsHaveNoEffect,
    SeenAclsAreCurrent,
)
from jepsen.checkers.security.logins import (
    ConnectionsKeepTheirUsers,
    CredentialsKeepTheirIterations,
    OnlySessionsAreServed,
    RightPasswordsLogIn,
    TokensAreOfTheirOwners,
    WrongPasswordsNeverLogIn,
)

SECURITY_CHECKERS: Final[tuple[Checker, ...]] = (
    DeniedRequestsAreRefused(),
    AllowedRequestsAreServed(),
    RefusedRequestsHaveNoEffect(),
    SeenAclsAreCurrent(),
    WrongPasswordsNeverLogIn(),
    RightPasswordsLogIn(),
    ConnectionsKeepTheirUsers(),
    OnlySessionsAreServed(),
    CredentialsKeepTheirIterations(),
    TokensAreOfTheirOwners(),
)
