"""The port to an authorizer: which operations a client may carry out on which resources."""

from enum import IntEnum
from typing import Final, Protocol

from broker.server.session import Session

# The name of the only resource of the type CLUSTER.
CLUSTER_NAME: Final = "kafka-cluster"


class AclOperation(IntEnum):
    """Kafka's numbers; each is the position of a bit in a field of operations (KIP-430)."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    TWO_PHASE_COMMIT = 15


class AclResourceType(IntEnum):
    """Kafka's numbers."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Authorizer(Protocol):
    """Decides what clients may do. A server without an authorizer allows everything, and never asks.

    A decision may depend on the session's principal, address and listener. Shortcuts for repeated requests rely on
    earlier decisions, so `Dispatcher.access_changed` has to be called as soon as decisions change.
    """

    def allows(
        self, session: Session, operation: AclOperation, resource_type: AclResourceType, resource_name: str
    ) -> bool:
        """True if the session's client may carry out the operation on the resource."""
        ...
