"""An authorizer and quotas that a test controls, installed in a running node."""

from collections.abc import Callable
from math import inf

import attrs

from broker.server import Dispatcher, Services
from broker.server.quotas import Allowance, Charging, Usage
from broker.server.session import HeldTime, Session
from metadata.protocol import AclOperation, ResourceType
from tests.support.running_node import RunningNode


@attrs.define
class TestAuthorizer:
    """Denies the combinations in `denied` (principal, operation, resource type, resource name), and allows
    all others.
    """

    __test__ = False

    denied: set[tuple[str, AclOperation, ResourceType, str]] = attrs.field(factory=set)
    asked: int = 0
    uses_acls: bool = False

    def allows(
        self, session: Session, operation: AclOperation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        self.asked += 1
        return (session.principal, operation, resource_type, resource_name) not in self.denied

    def allows_any(self, session: Session, operation: AclOperation, resource_type: ResourceType) -> bool:
        return self.allows(session, operation, resource_type, "*")

    def when_changed(self, callback: Callable[[], None]) -> None:
        """Tests tell the dispatcher themselves."""


@attrs.define
class TestQuotas:
    """Throttles requests of an API by `throttle_ms`, and records all requests."""

    __test__ = False

    throttle_ms: dict[int, int] = attrs.field(factory=dict)
    usages: list[Usage] = attrs.field(factory=list)
    fetched_max: float = inf

    @property
    def needs_times(self) -> bool:
        return False

    def charge_time(self, session: Session, client_id: str | None, held_s: float) -> None:
        raise AssertionError("times are not needed")

    def charge(self, usage: Usage, held_s: float) -> int:
        self.usages.append(usage)
        return self.throttle_ms.get(usage.api_key, 0)

    def allowance(self, session: Session, client_id: str | None, api_key: int) -> Allowance:
        return Allowance()

    def held_time(self, session: Session, client_id: str | None) -> HeldTime | None:
        return None

    def fetched_bytes_max(self, session: Session, client_id: str | None) -> float:
        return self.fetched_max


@attrs.frozen
class Access:
    """The authorizer and the quotas of a node."""

    authorizer: TestAuthorizer
    quotas: TestQuotas
    dispatcher: Dispatcher[Services]

    def deny(self, principal: str, operation: AclOperation, resource_type: ResourceType, resource_name: str) -> None:
        self.authorizer.denied.add((principal, operation, resource_type, resource_name))
        self.dispatcher.access_changed()

    def allow_all(self) -> None:
        self.authorizer.denied.clear()
        self.dispatcher.access_changed()

    @property
    def last_session(self) -> Session:
        """The session of the last request that was charged."""
        return self.quotas.usages[-1].session


def install_access(node: RunningNode) -> Access:
    """Install an authorizer and quotas that allow everything until the test changes them."""
    broker = node.node.broker
    assert broker is not None, "the node is a broker"
    assert broker.dispatcher is not None, "the broker serves"
    dispatcher = broker.dispatcher
    access = Access(TestAuthorizer(), TestQuotas(), dispatcher)
    dispatcher.authorize(access.authorizer)
    dispatcher.charge(Charging(access.quotas, dispatcher.services.deadlines))
    return access
