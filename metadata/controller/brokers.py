"""Brokers that join."""

from collections.abc import Iterator, Mapping, Sequence

import attrs

from metadata.controller.config import ControllerConfig
from metadata.controller.decision import Decision
from metadata.errors import InconsistentClusterId, InvalidRegistration, StaleBrokerEpoch, UnsupportedVersion
from metadata.ids import is_reserved, uuid_text
from metadata.image import BrokerImage, MetadataImage
from metadata.records import (
    NO_LEADER,
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    FencingChange,
    MetadataRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    VersionRange,
)

NO_PREVIOUS_EPOCH = -1


@attrs.frozen(kw_only=True)
class BrokerRegistration:
    """A broker process asks to join. `incarnation_id` (a UUID) is new for every process, `log_dirs` are UUIDs.

    `previous_broker_epoch` is the epoch under which this broker last shut down cleanly, as its clean-shutdown marker
    says, or -1 (KIP-966).
    """

    cluster_id: str
    broker_id: int
    incarnation_id: bytes
    end_points: Sequence[BrokerEndpoint]
    features: Mapping[str, VersionRange]
    log_dirs: Sequence[bytes]
    rack: str | None = None
    previous_broker_epoch: int = NO_PREVIOUS_EPOCH


class BrokersRoom:
    """Decides who belongs to the cluster."""

    def __init__(self, config: ControllerConfig) -> None:
        self._config = config

    def register(self, image: MetadataImage, request: BrokerRegistration, next_offset: int) -> Decision[int]:
        """Let a broker in, fenced at first, and answer with its broker epoch: the offset of its record.

        A new process that does not continue from a clean shutdown may have lost what its page cache held. Whatever its
        predecessor led gets a new leader epoch in the same batch, so that a reader who saw lost records can tell
        (KIP-320). Kafka does so after clean shutdowns as well; those lost nothing, and restarting a broker of 10,000
        partitions costs no records this way.

        Raises InconsistentClusterId, InvalidRegistration, UnsupportedVersion.
        """
        self._check(image, request)
        existing = image.cluster.brokers.get(request.broker_id)
        amended = existing is not None and existing.incarnation_id == request.incarnation_id
        record = RegisterBrokerRecord(
            broker_id=request.broker_id,
            incarnation_id=request.incarnation_id,
            broker_epoch=existing.broker_epoch if existing and amended else next_offset,
            end_points=tuple(request.end_points),
            features=dict(request.features),
            rack=request.rack,
            fenced=existing.fenced if existing and amended else True,
            in_controlled_shutdown=existing.in_controlled_shutdown if existing and amended else False,
            log_dirs=tuple(request.log_dirs),
        )
        records: list[MetadataRecord] = [record]
        lost_nothing = existing is not None and request.previous_broker_epoch == existing.broker_epoch
        if not amended and not lost_nothing:
            records += _lead(image, request.broker_id, request.broker_id)
        return Decision(records, record.broker_epoch)

    def unfence(self, image: MetadataImage, broker_id: int, broker_epoch: int) -> Decision[None]:
        """Let a registered broker lead; partitions that wait for it get it as their leader. Raises StaleBrokerEpoch."""
        broker = check_broker_epoch(image, broker_id, broker_epoch)
        if not broker.fenced:
            return Decision((), None)
        change = BrokerRegistrationChangeRecord(
            broker_id=broker_id, broker_epoch=broker_epoch, fenced=FencingChange.UNFENCE
        )
        return Decision([change, *_lead(image, broker_id, NO_LEADER)], None)

    def _check(self, image: MetadataImage, request: BrokerRegistration) -> None:
        if request.cluster_id != self._config.cluster_id:
            raise InconsistentClusterId(
                f"Expected cluster ID {self._config.cluster_id}, but got cluster ID {request.cluster_id}"
            )
        _check_log_dirs(image, request)
        for name in dict.fromkeys((*image.features, *request.features)):
            level = image.features.get(name, 0)
            supported = request.features.get(name, VersionRange(0, 0))
            if not supported.min_version <= level <= supported.max_version:
                raise UnsupportedVersion(
                    f"Unable to register because the broker does not support finalized version {level} of {name}. The "
                    f"broker wants a version between {supported.min_version} and {supported.max_version}, inclusive."
                )


def check_broker_epoch(image: MetadataImage, broker_id: int, broker_epoch: int) -> BrokerImage:
    """The registration that a broker speaks for. Raises StaleBrokerEpoch when it is not the current one."""
    broker = image.cluster.brokers.get(broker_id)
    if broker is None:
        raise StaleBrokerEpoch(f"No broker registration found for broker id {broker_id}")
    if broker.broker_epoch != broker_epoch:
        raise StaleBrokerEpoch(f"Expected broker epoch {broker.broker_epoch}, but got broker epoch {broker_epoch}")
    return broker


def _check_log_dirs(image: MetadataImage, request: BrokerRegistration) -> None:
    if not request.log_dirs:
        raise InvalidRegistration("No directories specified in request")
    if any(map(is_reserved, request.log_dirs)):
        raise InvalidRegistration("Reserved directory ID in request")
    if len(set(request.log_dirs)) < len(request.log_dirs):
        raise InvalidRegistration("Duplicate directory ID in request")
    for broker in image.cluster.brokers.values():
        for log_dir in request.log_dirs:
            if broker.broker_id != request.broker_id and log_dir in broker.log_dirs:
                raise InvalidRegistration(
                    f"Broker {broker.broker_id} is already registered with directory {uuid_text(log_dir)}"
                )


def _lead(image: MetadataImage, broker_id: int, led_by: int) -> Iterator[PartitionChangeRecord]:
    """Make the broker the leader of every partition that `led_by` leads and that has the broker in its ISR.

    Looks at all partitions: a few ms for 10,000, once in the life of a broker process.
    """
    for topic in image.topics.by_id.values():
        for partition_id, partition in topic.partitions.items():
            if partition.leader == led_by and broker_id in partition.isr:
                yield PartitionChangeRecord(topic_id=topic.topic_id, partition_id=partition_id, leader=broker_id)
