"""Joins the catalogues of all packages."""

from collections.abc import Mapping
from typing import Final

from broker.events.coordinators import COORDINATOR_EVENTS
from broker.events.nodes import (
    CONFIG_EVENTS,
    CONTROLLER_CLIENT_EVENTS,
    HANDLER_EVENTS,
    NODE_EVENTS,
    PROCESS_EVENTS,
    QUOTA_EVENTS,
    SERVER_EVENTS,
    TELEMETRY_EVENTS,
)
from broker.events.replication import REPLICATION_EVENTS
from broker.events.share_partitions import SHARE_PARTITION_EVENTS
from broker.events.storage import STORAGE_EVENTS
from kraft.events import QUORUM_EVENTS, EventCatalogue, EventKind
from metadata.events import CONTROLLER_EVENTS

ALL_CATALOGUES: Final[tuple[EventCatalogue, ...]] = (
    QUORUM_EVENTS,
    CONTROLLER_EVENTS,
    NODE_EVENTS,
    CONFIG_EVENTS,
    QUOTA_EVENTS,
    CONTROLLER_CLIENT_EVENTS,
    SERVER_EVENTS,
    HANDLER_EVENTS,
    TELEMETRY_EVENTS,
    STORAGE_EVENTS,
    REPLICATION_EVENTS,
    COORDINATOR_EVENTS,
    SHARE_PARTITION_EVENTS,
    PROCESS_EVENTS,
)
EVENT_KINDS: Final[Mapping[str, EventKind]] = {
    kind: declared for catalogue in ALL_CATALOGUES for kind, declared in catalogue.kinds.items()
}
