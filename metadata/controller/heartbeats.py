"""Broker heartbeats, which fence and unfence brokers and control their shutdown (KIP-631, KIP-841).

They also name the log directories that failed (KIP-858) and that are cordoned (KIP-1066).
"""

from collections.abc import Sequence
from typing import Any

from kraft import lazy_attrs
from metadata.controller.broker_partitions import BrokerPartitions, leads_anything
from metadata.controller.brokers import check_broker_epoch, fencing
from metadata.controller.decision import Decision
from metadata.controller.feature_levels import CORDONS_SINCE, METADATA_VERSION
from metadata.controller.sessions import BrokerSessions
from metadata.image import BrokerImage, MetadataDelta, MetadataImage
from metadata.records import BrokerRegistrationChangeRecord, FencingChange


@lazy_attrs.frozen(kw_only=True)
class BrokerHeartbeat:
    """`current_metadata_offset` is the last offset that the broker has replayed, or -1.

    `want_fence` is False for a broker that is ready to serve. `offline_log_dirs` are the UUIDs of all failed
    directories. `cordoned_log_dirs` are those of all directories that are to get no new replicas; None if the broker
    does not know of cordoning.
    """

    broker_id: int
    broker_epoch: int
    current_metadata_offset: int
    want_fence: bool
    want_shut_down: bool
    offline_log_dirs: Sequence[bytes] = ()
    cordoned_log_dirs: Sequence[bytes] | None = None


@lazy_attrs.frozen(kw_only=True)
class BrokerHeartbeatReply:
    """`is_caught_up`: the broker has replayed its registration. `should_shut_down`: it leads nothing, and may stop."""

    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool


class HeartbeatsControl:
    """Decides the state of a broker from its heartbeats."""

    def __init__(self, partitions: BrokerPartitions) -> None:
        self._partitions = partitions

    def heartbeat(
        self, image: MetadataImage, sessions: BrokerSessions, heartbeat: BrokerHeartbeat
    ) -> Decision[BrokerHeartbeatReply]:
        """Handle a heartbeat. Raises KafkaError STALE_BROKER_EPOCH.

        A fenced broker is unfenced if it wants to be and has replayed its own registration, so that its metadata is of
        this incarnation.

        A broker that wants to shut down is removed as a leader and from all ISRs. It may stop once the other active
        brokers have replayed that, so that none of them sends clients to it.

        The last active broker has no broker to hand over to. It may stop at once and stays the leader of its
        partitions, so it finds its state unchanged after a restart. It is not fenced while it starts, either.
        """
        broker = check_broker_epoch(image, heartbeat.broker_id, heartbeat.broker_epoch)
        if broker.fenced:
            decision = self._of_fenced(image, broker, heartbeat)
        elif heartbeat.want_fence and _other_active(image, broker):
            decision = self._fence(image, broker, heartbeat, shut_down=heartbeat.want_shut_down)
        elif heartbeat.want_shut_down:
            decision = self._shut_down(image, sessions, broker, heartbeat)
        else:
            decision = Decision((), _reply(heartbeat, is_fenced=False))
        decision = self._with_lost_directories(image, broker, heartbeat, decision)
        return _with_cordoned_directories(image, broker, heartbeat, decision)

    def _of_fenced(
        self, image: MetadataImage, broker: BrokerImage, heartbeat: BrokerHeartbeat
    ) -> Decision[BrokerHeartbeatReply]:
        if heartbeat.want_shut_down:
            return Decision((), _reply(heartbeat, is_fenced=True, should_shut_down=True))
        is_behind = heartbeat.current_metadata_offset < broker.broker_epoch
        # A process that has begun to shut down is not unfenced again: the next incarnation registers (KIP-841).
        if heartbeat.want_fence or is_behind or broker.in_controlled_shutdown:
            return Decision((), _reply(heartbeat, is_fenced=True))
        change = _change(broker, fenced=FencingChange.UNFENCE)
        records = [change, *self._partitions.broker_unfenced(image, broker.broker_id)]
        return Decision(records, _reply(heartbeat, is_fenced=False))

    def _fence(
        self, image: MetadataImage, broker: BrokerImage, heartbeat: BrokerHeartbeat, *, shut_down: bool
    ) -> Decision[BrokerHeartbeatReply]:
        records = fencing(image, self._partitions, broker.broker_id, shuts_down=shut_down)
        return Decision(records, _reply(heartbeat, is_fenced=True, should_shut_down=shut_down))

    def _shut_down(
        self, image: MetadataImage, sessions: BrokerSessions, broker: BrokerImage, heartbeat: BrokerHeartbeat
    ) -> Decision[BrokerHeartbeatReply]:
        others = _other_active(image, broker)
        if not broker.in_controlled_shutdown:
            if not others:
                return Decision((), _reply(heartbeat, is_fenced=False, should_shut_down=True))
            if leads_anything(image, broker.broker_id):
                change = _change(broker, in_controlled_shutdown=True)
                records = [change, *self._partitions.broker_inactive(image, broker.broker_id)]
                return Decision(records, _reply(heartbeat, is_fenced=False))
            return self._fence(image, broker, heartbeat, shut_down=True)
        offset = sessions.shutdown_offset(broker.broker_id)
        if offset is not None and any(sessions.metadata_offset(other) < offset for other in others):
            return Decision((), _reply(heartbeat, is_fenced=False))
        return self._fence(image, broker, heartbeat, shut_down=True)

    def _with_lost_directories(
        self,
        image: MetadataImage,
        broker: BrokerImage,
        heartbeat: BrokerHeartbeat,
        decision: Decision[BrokerHeartbeatReply],
    ) -> Decision[BrokerHeartbeatReply]:
        """Add the changes of partitions in log directories that failed (KIP-858)."""
        lost = [directory for directory in broker.log_dirs if directory in heartbeat.offline_log_dirs]
        if not lost:
            return decision
        after = MetadataDelta(image)
        after.replay(decision.records)
        changes = self._partitions.directories_offline(after.apply(image.offset), broker.broker_id, lost)
        remaining = tuple(directory for directory in broker.log_dirs if directory not in lost)
        return Decision([*decision.records, *changes, _change(broker, log_dirs=remaining)], decision.response)


def heartbeat_cause(image: MetadataImage, heartbeat: BrokerHeartbeat) -> str:
    """Returns the cause that is logged with the records of this heartbeat, if there are any."""
    broker = f"broker {heartbeat.broker_id}"
    if heartbeat.want_shut_down:
        return f"{broker} shuts down"
    if heartbeat.want_fence:
        return f"{broker} asks to be fenced"
    if heartbeat.offline_log_dirs:
        return f"{broker} reports failed log directories"
    is_fenced = not image.cluster.is_active(heartbeat.broker_id)
    return f"{broker} has caught up" if is_fenced else f"{broker} names the log directories that are cordoned"


def _with_cordoned_directories(
    image: MetadataImage,
    broker: BrokerImage,
    heartbeat: BrokerHeartbeat,
    decision: Decision[BrokerHeartbeatReply],
) -> Decision[BrokerHeartbeatReply]:
    """Add the change of the log directories that get no new replicas (KIP-1066)."""
    if heartbeat.cordoned_log_dirs is None:
        return decision
    supported = image.features.get(METADATA_VERSION, 0) >= CORDONS_SINCE
    asked = heartbeat.cordoned_log_dirs if supported else ()
    cordoned = tuple(directory for directory in broker.log_dirs if directory in asked)
    if cordoned == broker.cordoned_log_dirs:
        return decision
    return Decision([*decision.records, _change(broker, cordoned_log_dirs=cordoned)], decision.response)


def _other_active(image: MetadataImage, broker: BrokerImage) -> list[int]:
    return [other.broker_id for other in image.cluster.brokers.values() if other.is_active and other != broker]


def _change(broker: BrokerImage, **changes: Any) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, **changes)


def _reply(heartbeat: BrokerHeartbeat, *, is_fenced: bool, should_shut_down: bool = False) -> BrokerHeartbeatReply:
    return BrokerHeartbeatReply(
        is_caught_up=heartbeat.current_metadata_offset >= heartbeat.broker_epoch,
        is_fenced=is_fenced,
        should_shut_down=should_shut_down,
    )
