"""Bugs planted into authentication and authorization; see `planted_bugs`."""

from collections.abc import Iterator
from typing import Any

from broker.security.acls.acl_index import AclIndex
from broker.security.acls.standard_authorizer import StandardAuthorizer
from broker.server import forwarding
from broker.server.context import Context
from broker.server.request_admission import RequestAdmission
from broker.server.sasl import SaslSession
from broker.server.session import Session
from metadata.controller import scram
from metadata.image import AccessControlEntry
from metadata.protocol import AclPermission, PatternType
from metadata.protocol.scram import ITERATIONS_MIN
from tests.support.planted_bugs import Bug, PatchedFunction, PatchedFunctions


def _without_denied_prefixes(entries: Any) -> Any:
    def wrong(index: AclIndex, *question: Any) -> Iterator[AccessControlEntry]:
        for entry in entries(index, *question):
            if (entry.permission, entry.pattern_type) != (AclPermission.DENY, PatternType.PREFIXED):
                yield entry

    return wrong


def _keeping_decisions(publish: Any) -> Any:
    def wrong(authorizer: StandardAuthorizer, delta: Any, image: Any) -> None:
        decisions = dict(authorizer._decisions)
        publish(authorizer, delta, image)
        authorizer._decisions.update(decisions)

    return wrong


def _of_any_user(evaluate: Any) -> Any:
    def wrong(session: SaslSession, message: bytes) -> Any:
        session._authenticated_as = None
        return evaluate(session, message)

    return wrong


def _as_before(authenticate: Any) -> Any:
    def wrong(session: Session, principal: str, *until: float) -> None:
        authenticate(session, session.principal or principal, *until)

    return wrong


def _as_the_broker(send: Any) -> Any:
    async def wrong(forward: Any, context: Context[Any], payload: bytes) -> bytes:
        answer: bytes = await forward(payload, principal="User:node", client_host=context.client_host)
        return answer

    return wrong


def _with_fewest_iterations(scram_record: Any) -> Any:
    return lambda user, mechanism, salted, salt, iterations: scram_record(user, mechanism, salted, salt, ITERATIONS_MIN)


def _of_expired_sessions(check_authenticated: Any) -> Any:
    def wrong(admission: RequestAdmission, session: Session, api_key: int) -> None:
        if not session.is_authenticated:
            check_authenticated(admission, session, api_key)

    return wrong


SECURITY_BUGS: dict[str, Bug] = {
    "deny ignored for prefixed patterns": PatchedFunction(AclIndex, "entries", _without_denied_prefixes),
    "decisions kept after ACLs change": PatchedFunction(StandardAuthorizer, "publish", _keeping_decisions),
    "reused connection keeps its principal": PatchedFunctions(
        PatchedFunction(SaslSession, "evaluate", _of_any_user),
        PatchedFunction(Session, "authenticate", _as_before),
    ),
    "forwarded as the broker's principal": PatchedFunction(forwarding, "_send", _as_the_broker),
    "SCRAM iterations lowered": PatchedFunction(scram, "scram_record", _with_fewest_iterations),
    "expired session served": PatchedFunction(RequestAdmission, "_check_authenticated", _of_expired_sessions),
}
