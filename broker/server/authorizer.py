"""The port to an authorizer: which operations a client may carry out on which resources."""

from typing import Protocol

from broker.server.session import Session
from metadata.protocol import AclOperation, ResourceType


class Authorizer(Protocol):
    """Decides what clients may do. A server without an authorizer allows everything, and never asks.

    A decision may depend on the session's principal, address and listener. Shortcuts for repeated requests rely on
    earlier decisions, so `Dispatcher.access_changed` has to be called as soon as decisions change.
    """

    def allows(
        self, session: Session, operation: AclOperation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        """True if the session's client may carry out the operation on the resource."""
        ...
