"""The port to an authorizer: which operations a client may carry out on which resources."""

from collections.abc import Callable
from typing import Protocol

from broker.server.session import Session
from metadata.protocol import AclOperation, ResourceType


class Authorizer(Protocol):
    """Decides what clients may do. A server without an authorizer allows everything, and never asks.

    A decision may depend on the session's principal, address and listener. It is made on the event loop, many times in
    a request about many resources, so it must not block.
    """

    @property
    def uses_acls(self) -> bool:
        """True if decisions follow the access control entries in the metadata, which clients may then change."""
        ...

    def allows(
        self, session: Session, operation: AclOperation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        """True if the session's client may carry out the operation on the resource.

        Raises KafkaError if that is not known yet; the error is the response to the request.
        """
        ...

    def allows_any(self, session: Session, operation: AclOperation, resource_type: ResourceType) -> bool:
        """True if the client may carry out the operation on at least one resource of the type (KIP-679)."""
        ...

    def when_changed(self, callback: Callable[[], None]) -> None:
        """Call `callback` as soon as decisions change: shortcuts for repeated requests rely on earlier ones."""
        ...
