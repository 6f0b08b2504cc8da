"""Registration, unregistration and fencing of brokers."""

from collections.abc import Mapping, Sequence

from kraft import lazy_attrs
from metadata.controller.broker_partitions import BrokerPartitions
from metadata.controller.controller_config import ControllerConfig
from metadata.controller.decision import Decision
from metadata.controller.sessions import BrokerSessions
from metadata.ids import is_reserved, uuid_text
from metadata.image import BrokerImage, MetadataImage
from metadata.protocol import ErrorCode, KafkaError
from metadata.records import (
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    FencingChange,
    MetadataRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
    VersionRange,
)

NO_PREVIOUS_EPOCH = -1


@lazy_attrs.frozen(kw_only=True)
class BrokerRegistration:
    """The registration of a broker process. `incarnation_id` (a UUID) is new for every process, `log_dirs` are UUIDs.

    `previous_broker_epoch` is the epoch in the broker's clean-shutdown file, or -1 without one (KIP-966).
    """

    cluster_id: str
    broker_id: int
    incarnation_id: bytes
    end_points: Sequence[BrokerEndpoint]
    features: Mapping[str, VersionRange]
    log_dirs: Sequence[bytes]
    rack: str | None = None
    previous_broker_epoch: int = NO_PREVIOUS_EPOCH


class BrokersControl:
    """Decides which brokers are registered, and which of them are fenced."""

    def __init__(self, config: ControllerConfig, partitions: BrokerPartitions) -> None:
        self._config = config
        self._partitions = partitions

    def register(
        self,
        image: MetadataImage,
        sessions: BrokerSessions,
        request: BrokerRegistration,
        next_offset: int,
        now_ms: float,
    ) -> Decision[int]:
        """Register a broker. The response is its broker epoch: the offset of its registration for a new incarnation.

        A process that registers again keeps its epoch and its state. A new incarnation is fenced, and other brokers
        take over its partitions in the same batch. Without a clean shutdown, it may have lost its page cache, so it is
        not eligible as a leader either (KIP-966).

        A broker that shut down cleanly without having been fenced, because no other broker could take over, has lost
        nothing. It stays unfenced and keeps its partitions, so its restart changes no partition.

        Raises KafkaError: INCONSISTENT_CLUSTER_ID, DUPLICATE_BROKER_REGISTRATION, INVALID_REGISTRATION,
        UNSUPPORTED_VERSION.
        """
        self._check(image, sessions, request, now_ms)
        existing = image.cluster.brokers.get(request.broker_id)
        if existing is None or existing.incarnation_id != request.incarnation_id:
            return self._register_new(image, request, existing, next_offset)
        record = _registered(request, existing, existing.broker_epoch, existing.fenced, existing.in_controlled_shutdown)
        return Decision([record], existing.broker_epoch)

    def unregister(self, image: MetadataImage, broker_id: int) -> Decision[None]:
        """Remove a broker's registration. Its replicas stay assigned to it.

        Raises KafkaError BROKER_ID_NOT_REGISTERED.
        """
        broker = image.cluster.brokers.get(broker_id)
        if broker is None:
            raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered")
        record = UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.broker_epoch)
        return Decision([*self._partitions.broker_shut_down_uncleanly(image, broker_id), record], None)

    def fence(self, image: MetadataImage, broker_id: int) -> Decision[None]:
        """Fence a broker whose session has expired. Other replicas in sync take over its partitions."""
        return Decision(fencing(image, self._partitions, broker_id), None)

    def _register_new(
        self, image: MetadataImage, request: BrokerRegistration, existing: BrokerImage | None, next_offset: int
    ) -> Decision[int]:
        broker_id = request.broker_id
        is_clean = existing is not None and request.previous_broker_epoch == existing.broker_epoch
        carries_on = is_clean and existing is not None and existing.is_active and _has_all(request, existing)
        records: list[MetadataRecord] = [_registered(request, existing, next_offset, fenced=not carries_on)]
        if not is_clean:
            records += self._partitions.broker_shut_down_uncleanly(image, broker_id)
        elif not carries_on:
            records += self._partitions.broker_inactive(image, broker_id)
        return Decision(records, next_offset)

    def _check(
        self, image: MetadataImage, sessions: BrokerSessions, request: BrokerRegistration, now_ms: float
    ) -> None:
        if request.cluster_id != self._config.cluster_id:
            raise KafkaError(
                ErrorCode.INCONSISTENT_CLUSTER_ID,
                f"Expected cluster ID {self._config.cluster_id}, but got cluster ID {request.cluster_id}",
            )
        _check_incarnation(image, sessions, request, now_ms)
        _check_log_dirs(image, request)
        for name in dict.fromkeys((*image.features, *request.features)):
            level = image.features.get(name, 0)
            supported = request.features.get(name, VersionRange(0, 0))
            if not supported.min_version <= level <= supported.max_version:
                raise KafkaError(
                    ErrorCode.UNSUPPORTED_VERSION,
                    f"Unable to register because the broker does not support finalized version {level} of {name}. The "
                    f"broker wants a version between {supported.min_version} and {supported.max_version}, inclusive.",
                )


def check_broker_epoch(image: MetadataImage, broker_id: int, broker_epoch: int) -> BrokerImage:
    """Return the broker's registration. Raises KafkaError STALE_BROKER_EPOCH if `broker_epoch` is not the current."""
    broker = image.cluster.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker_id}")
    if broker.broker_epoch != broker_epoch:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Expected broker epoch {broker.broker_epoch}, but got broker epoch {broker_epoch}",
        )
    return broker


def fencing(
    image: MetadataImage, partitions: BrokerPartitions, broker_id: int, *, shuts_down: bool = False
) -> list[MetadataRecord]:
    """The records that fence a broker; none if it is fenced already. `shuts_down`: it has asked for its shutdown."""
    broker = image.cluster.brokers[broker_id]
    if broker.fenced:
        return []
    change = BrokerRegistrationChangeRecord(
        broker_id=broker_id,
        broker_epoch=broker.broker_epoch,
        fenced=FencingChange.FENCE,
        in_controlled_shutdown=shuts_down,
    )
    return [*partitions.broker_inactive(image, broker_id), change]


def _registered(
    request: BrokerRegistration,
    existing: BrokerImage | None,
    broker_epoch: int,
    fenced: bool,
    in_controlled_shutdown: bool = False,
) -> RegisterBrokerRecord:
    """The record of a registration. Log directories stay cordoned until the broker's first heartbeat names others."""
    cordoned = () if existing is None else existing.cordoned_log_dirs
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=broker_epoch,
        end_points=tuple(request.end_points),
        features=dict(request.features),
        rack=request.rack,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
        log_dirs=tuple(request.log_dirs),
        cordoned_log_dirs=tuple(log_dir for log_dir in cordoned if log_dir in request.log_dirs),
    )


def _check_incarnation(
    image: MetadataImage, sessions: BrokerSessions, request: BrokerRegistration, now_ms: float
) -> None:
    """Raises KafkaError DUPLICATE_BROKER_REGISTRATION if the previous incarnation of the broker is still alive.

    Kafka refuses the new incarnation until the session of the old one ends. Here it is accepted as soon as the old one
    is known to be gone: it was fenced or is shutting down, its connection broke, the new one has its clean-shutdown
    file, or it has not contacted this controller yet. A broker that restarts after a crash need not wait for its
    session to end.
    """
    existing = image.cluster.brokers.get(request.broker_id)
    if existing is None or existing.incarnation_id == request.incarnation_id:
        return
    shut_down = existing.in_controlled_shutdown or request.previous_broker_epoch == existing.broker_epoch
    if not shut_down and sessions.is_certainly_alive(request.broker_id, now_ms):
        raise KafkaError(ErrorCode.DUPLICATE_BROKER_REGISTRATION, "Another broker is registered with that broker id.")


def _has_all(request: BrokerRegistration, existing: BrokerImage) -> bool:
    """True if the new incarnation has all log directories of the previous one, and so all of its replicas."""
    return all(log_dir in request.log_dirs for log_dir in existing.log_dirs)


def _check_log_dirs(image: MetadataImage, request: BrokerRegistration) -> None:
    if not request.log_dirs:
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "No directories specified in request")
    if any(map(is_reserved, request.log_dirs)):
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "Reserved directory ID in request")
    if len(set(request.log_dirs)) < len(request.log_dirs):
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "Duplicate directory ID in request")
    for broker in image.cluster.brokers.values():
        for log_dir in request.log_dirs:
            if broker.broker_id != request.broker_id and log_dir in broker.log_dirs:
                raise KafkaError(
                    ErrorCode.INVALID_REGISTRATION,
                    f"Broker {broker.broker_id} is already registered with directory {uuid_text(log_dir)}",
                )
