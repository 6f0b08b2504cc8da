"""The registered brokers and controllers."""

from collections.abc import Mapping

import attrs

from kraft import lazy_attrs
from metadata.records import (
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    FencingChange,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
    VersionRange,
)


@lazy_attrs.frozen
class BrokerImage:
    """A broker's registration. `end_points` are by listener name. Clients do not see fenced brokers.

    `cordoned_log_dirs` are those of its `log_dirs` that get no new replicas (KIP-1066).
    """

    broker_id: int
    broker_epoch: int
    incarnation_id: bytes
    end_points: Mapping[str, BrokerEndpoint]
    features: Mapping[str, VersionRange]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    log_dirs: tuple[bytes, ...]
    cordoned_log_dirs: tuple[bytes, ...] = ()

    @property
    def is_active(self) -> bool:
        """True if the broker can lead partitions and be in an ISR."""
        return not self.fenced and not self.in_controlled_shutdown

    @property
    def is_cordoned(self) -> bool:
        """True if all log directories are cordoned, so that the broker gets no new replicas."""
        return bool(self.log_dirs) and all(log_dir in self.cordoned_log_dirs for log_dir in self.log_dirs)


@lazy_attrs.frozen
class ControllerImage:
    """A controller's registration (KIP-919). `end_points` are by listener name."""

    controller_id: int
    incarnation_id: bytes
    end_points: Mapping[str, BrokerEndpoint]
    features: Mapping[str, VersionRange]


@lazy_attrs.frozen
class ClusterImage:
    """`brokers` and `controllers` by id, in order of registration. A change copies the whole dict, which is small."""

    brokers: Mapping[int, BrokerImage] = attrs.field(factory=dict)
    controllers: Mapping[int, ControllerImage] = attrs.field(factory=dict)

    def is_active(self, broker_id: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.is_active


class ClusterDelta:
    """`changed` maps a broker's id to its new registration, or to None for an unregistered broker.

    `changed_controllers` does so for controllers.
    """

    def __init__(self, base: ClusterImage) -> None:
        self.base = base
        self.changed: dict[int, BrokerImage | None] = {}
        self.changed_controllers: dict[int, ControllerImage | None] = {}

    @property
    def is_empty(self) -> bool:
        return not self.changed and not self.changed_controllers

    def replay_register(self, record: RegisterBrokerRecord) -> None:
        self.changed[record.broker_id] = BrokerImage(
            broker_id=record.broker_id,
            broker_epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            end_points={endpoint.name: endpoint for endpoint in record.end_points},
            features=record.features,
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            log_dirs=record.log_dirs,
            cordoned_log_dirs=record.cordoned_log_dirs,
        )

    def replay_unregister(self, record: UnregisterBrokerRecord) -> None:
        self._broker(record.broker_id, record.broker_epoch)
        self.changed[record.broker_id] = None

    def replay_change(self, record: BrokerRegistrationChangeRecord) -> None:
        broker = self._broker(record.broker_id, record.broker_epoch)
        fenced = broker.fenced if record.fenced == FencingChange.NONE else record.fenced == FencingChange.FENCE
        self.changed[record.broker_id] = attrs.evolve(
            broker,
            fenced=fenced,
            in_controlled_shutdown=broker.in_controlled_shutdown or record.in_controlled_shutdown,
            log_dirs=broker.log_dirs if record.log_dirs is None else record.log_dirs,
            cordoned_log_dirs=(
                broker.cordoned_log_dirs if record.cordoned_log_dirs is None else record.cordoned_log_dirs
            ),
        )

    def replay_register_controller(self, record: RegisterControllerRecord) -> None:
        self.changed_controllers[record.controller_id] = ControllerImage(
            controller_id=record.controller_id,
            incarnation_id=record.incarnation_id,
            end_points={endpoint.name: endpoint for endpoint in record.end_points},
            features=record.features,
        )

    def replay_unregister_controller(self, record: UnregisterControllerRecord) -> None:
        known = {**self.base.controllers, **self.changed_controllers}
        assert known.get(record.controller_id) is not None, f"controller {record.controller_id} is not registered"
        self.changed_controllers[record.controller_id] = None

    def apply(self) -> ClusterImage:
        brokers = {**self.base.brokers, **self.changed}
        controllers = {**self.base.controllers, **self.changed_controllers}
        return ClusterImage(
            {broker_id: broker for broker_id, broker in brokers.items() if broker is not None},
            {controller_id: each for controller_id, each in controllers.items() if each is not None},
        )

    def _broker(self, broker_id: int, broker_epoch: int) -> BrokerImage:
        broker = self.changed[broker_id] if broker_id in self.changed else self.base.brokers.get(broker_id)
        assert broker is not None, f"broker {broker_id} is not registered"
        assert broker.broker_epoch == broker_epoch, f"broker {broker_id} is at epoch {broker.broker_epoch}"
        return broker
