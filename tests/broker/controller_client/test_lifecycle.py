"""The lifecycle of a broker, over sockets, with a scripted controller.

Times are virtual, and thus exact.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from broker.controller_client.lifecycle import BrokerLifecycle, LifecycleConfig
from broker.controller_client.lifecycle_protocol import BrokerState, LogDirFailureNotReported, RegistrationFailed
from broker.wire.api.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from broker.wire.api.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from broker.wire.errors import ErrorCode
from kraft.replicated_log import Batch
from metadata.controller import BrokerRegistration
from metadata.image import MetadataLoader
from metadata.records import (
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    NoOpRecord,
    RegisterBrokerRecord,
    VersionRange,
    encode_record,
)
from tests.support.controller_channel_harness import ME, ControllerChannelHarness, controller_channel_harness
from tests.support.scripted_node import Answer, ScriptedNode, scripted_node

OTHER = 5
EPOCH = 3
REGISTRATION = BrokerRegistration(
    cluster_id="abcdefghijklmnopqrstuv",
    broker_id=ME,
    incarnation_id=bytes(range(16)),
    end_points=[BrokerEndpoint("PLAINTEXT", "me", 9092, 0), BrokerEndpoint("SSL", "me", 65_535, 1)],
    features={"metadata.version": VersionRange(0, 25)},
    log_dirs=[b"a" * 16, b"b" * 16],
    rack="r",
    previous_broker_epoch=2,
)


class Controller:
    """Responds as an active controller that need not wait for other brokers."""

    def __init__(self) -> None:
        self.is_silent = False
        self.refusals: list[ErrorCode] = []
        self.epoch = EPOCH
        self.may_go = True
        self.times: list[float] = []

    def __call__(self, request: Any) -> Answer:
        self.times.append(trio.current_time())
        if self.is_silent:
            return None
        code = self.refusals.pop(0) if self.refusals else ErrorCode.NONE
        if isinstance(request, BrokerRegistrationRequest):
            return BrokerRegistrationResponse(error_code=code, broker_epoch=self.epoch)
        return BrokerHeartbeatResponse(
            error_code=code,
            is_caught_up=request.current_metadata_offset >= request.broker_epoch,
            is_fenced=request.want_fence,
            should_shut_down=request.want_shut_down and self.may_go,
        )


class Broker:
    """The lifecycle of the broker ME, and the part of the metadata log that it has received."""

    def __init__(self, harness: ControllerChannelHarness) -> None:
        self.harness = harness
        self.loader = MetadataLoader()
        self.online_log_dirs = list(REGISTRATION.log_dirs)
        self.cordoned_log_dirs: list[bytes] = []
        self.lifecycle = BrokerLifecycle(
            harness.env,
            LifecycleConfig(
                heartbeat_interval_ms=2_000, registration_timeout_ms=60_000, log_dir_failure_timeout_ms=30_000
            ),
            REGISTRATION,
            harness.channel,
            self.loader,
            lambda: self.online_log_dirs,
            lambda: self.cordoned_log_dirs,
        )

    def load(self, *records: MetadataRecord) -> None:
        """Apply these records of the metadata log."""
        offset = self.loader.image.offset + 1
        self.loader.handle_commit([Batch(offset, 1, 0, tuple(map(encode_record, records)))])

    def load_registration(self, broker_id: int = ME) -> None:
        self.load(*[NoOpRecord()] * (EPOCH - self.loader.image.offset - 1))
        self.load(RegisterBrokerRecord(broker_id=broker_id, incarnation_id=bytes(16), broker_epoch=EPOCH))

    async def start(self, nursery: trio.Nursery) -> None:
        await nursery.start(self.lifecycle.run)
        self.load_registration()
        with trio.fail_after(1):
            await self.lifecycle.wait_caught_up()
            await self.lifecycle.unfence()


@asynccontextmanager
async def serving(controller: Controller) -> AsyncIterator[tuple[ScriptedNode, Broker, trio.Nursery]]:
    """A leading controller, and a broker that knows it and is not started yet."""
    async with (
        scripted_node(controller) as node,
        controller_channel_harness() as harness,
        trio.open_nursery() as nursery,
    ):
        broker = Broker(harness)
        harness.announce(1, 1, node.address)
        yield node, broker, nursery
        nursery.cancel_scope.cancel()


def heartbeats(node: ScriptedNode) -> list[BrokerHeartbeatRequest]:
    return [request for request in node.requests if isinstance(request, BrokerHeartbeatRequest)]


async def test_broker_registers_and_is_unfenced(jumping_clock: MockClock) -> None:
    async with serving(Controller()) as (node, broker, nursery):
        await broker.start(nursery)
        registration = node.requests[0]
        assert (registration.broker_id, registration.cluster_id) == (ME, REGISTRATION.cluster_id)
        assert (registration.incarnation_id, registration.previous_broker_epoch) == (bytes(range(16)), 2)
        assert [(each.name, each.host, each.port, each.security_protocol) for each in registration.listeners] == [
            ("PLAINTEXT", "me", 9092, 0),
            ("SSL", "me", 65_535, 1),
        ]
        feature = registration.features[0]
        assert (feature.name, feature.min_supported_version, feature.max_supported_version) == (
            "metadata.version",
            0,
            25,
        )
        assert (registration.rack, list(registration.log_dirs)) == ("r", REGISTRATION.log_dirs)
        assert (broker.lifecycle.state, broker.lifecycle.broker_epoch) == (
            BrokerState.RUNNING,
            EPOCH,
        )
        last = heartbeats(node)[-1]
        assert (last.broker_epoch, last.current_metadata_offset, last.want_fence) == (EPOCH, EPOCH, False)
        states = [traced["state"] for traced in broker.harness.traced.of("broker_state_changed")]
        assert states == ["STARTING", "RECOVERY", "RUNNING"]


async def test_broker_is_caught_up_after_its_own_registration(jumping_clock: MockClock) -> None:
    async with serving(Controller()) as (_, broker, nursery):
        await nursery.start(broker.lifecycle.run)
        await trio.sleep(1)
        assert (broker.lifecycle.state, broker.lifecycle.broker_epoch) == (
            BrokerState.STARTING,
            EPOCH,
        )
        broker.load_registration()
        await trio.sleep(0.001)
        assert broker.lifecycle.state is BrokerState.RECOVERY, "it did not wait for the next heartbeat's time"


async def test_running_broker_sends_heartbeats_every_two_seconds(jumping_clock: MockClock) -> None:
    controller = Controller()
    async with serving(controller) as (_, broker, nursery):
        await broker.start(nursery)
        await trio.sleep(1)
        before = len(controller.times)
        await trio.sleep(10)
        assert len(controller.times) - before == 5


async def test_new_leader_or_connection_gets_a_heartbeat_at_once(jumping_clock: MockClock) -> None:
    controller = Controller()
    async with serving(controller) as (first, broker, nursery), scripted_node(Controller()) as second:
        await broker.start(nursery)
        await trio.sleep(0.5)
        before = len(first.requests)
        first.drop_connections()
        await trio.sleep(0.05)
        assert len(first.requests) > before
        broker.harness.announce(2, 2, second.address)
        await trio.sleep(0.05)
        assert heartbeats(second)[0].broker_epoch == EPOCH


async def test_shutdown_of_another_broker_triggers_a_heartbeat(jumping_clock: MockClock) -> None:
    """The controller lets it stop only after all other brokers have learned of the shutdown."""
    async with serving(Controller()) as (node, broker, nursery):
        await broker.start(nursery)
        broker.load(RegisterBrokerRecord(broker_id=OTHER, incarnation_id=bytes(16), broker_epoch=EPOCH + 1))
        await trio.sleep(0.5)
        before = len(node.requests)
        broker.load(
            BrokerRegistrationChangeRecord(broker_id=OTHER, broker_epoch=EPOCH + 1, in_controlled_shutdown=True)
        )
        await trio.sleep(0.001)
        assert [each.current_metadata_offset for each in node.requests[before:]] == [EPOCH + 2]


async def test_failed_log_directories_are_reported_kip_858(jumping_clock: MockClock) -> None:
    """KIP-858."""
    async with serving(Controller()) as (node, broker, nursery):
        await broker.start(nursery)
        assert list(heartbeats(node)[-1].offline_log_dirs) == []
        broker.online_log_dirs.remove(b"a" * 16)
        await trio.sleep(2.1)
        assert list(heartbeats(node)[-1].offline_log_dirs) == [b"a" * 16]


async def test_cordoned_log_directories_are_reported_at_once_kip_1066(jumping_clock: MockClock) -> None:
    async with serving(Controller()) as (node, broker, nursery):
        await broker.start(nursery)
        assert list(heartbeats(node)[-1].cordoned_log_dirs or ()) == []
        await trio.sleep(0.5)
        broker.cordoned_log_dirs.append(b"b" * 16)
        broker.lifecycle.log_dirs_cordoned()
        await trio.sleep(0.001)
        assert list(heartbeats(node)[-1].cordoned_log_dirs or ()) == [b"b" * 16]


async def test_failing_log_directory_is_reported_at_once(jumping_clock: MockClock) -> None:
    async with serving(Controller()) as (node, broker, nursery):
        await broker.start(nursery)
        await trio.sleep(0.5)
        broker.online_log_dirs.remove(b"a" * 16)
        broker.lifecycle.log_dir_failed()
        await trio.sleep(0.001)
        assert list(heartbeats(node)[-1].offline_log_dirs) == [b"a" * 16]
        await trio.sleep(60)  # longer than the timeout


async def test_broker_that_cannot_report_a_failed_directory_ends(jumping_clock: MockClock) -> None:
    controller = Controller()
    with pytest.RaisesGroup(LogDirFailureNotReported, flatten_subgroups=True):
        async with serving(controller) as (_, broker, nursery):
            await broker.start(nursery)
            controller.is_silent = True
            broker.lifecycle.log_dir_failed()
            await trio.sleep(31)


async def test_duplicate_registration_is_accepted_when_the_former_process_is_gone(jumping_clock: MockClock) -> None:
    controller = Controller()
    controller.refusals = [ErrorCode.DUPLICATE_BROKER_REGISTRATION] * 10
    async with serving(controller) as (_, broker, nursery):
        started = trio.current_time()
        await nursery.start(broker.lifecycle.run)
        broker.load_registration()
        await broker.lifecycle.wait_caught_up()
        assert trio.current_time() - started < 5
        assert len(broker.harness.traced.of("broker_request_refused")) == 10


@pytest.mark.parametrize("is_known", [False, True])
async def test_start_without_a_controller_times_out(jumping_clock: MockClock, is_known: bool) -> None:
    controller = Controller()
    controller.is_silent = True
    async with scripted_node(controller) as node, controller_channel_harness() as harness:
        broker = Broker(harness)
        if is_known:
            harness.announce(1, 1, node.address)
        started = trio.current_time()
        with pytest.raises(RegistrationFailed, match=r"initial\.broker.registration\.timeout\.ms"):
            await broker.lifecycle.run()
        assert trio.current_time() - started == pytest.approx(60, abs=0.1)


async def test_final_registration_error_fails_the_start(jumping_clock: MockClock) -> None:
    controller = Controller()
    controller.refusals = [ErrorCode.INCONSISTENT_CLUSTER_ID]
    async with serving(controller) as (_, broker, _nursery):
        with pytest.raises(RegistrationFailed, match="INCONSISTENT_CLUSTER_ID"), trio.fail_after(0.1):
            await broker.lifecycle.run()


@pytest.mark.parametrize("code", [ErrorCode.BROKER_ID_NOT_REGISTERED, ErrorCode.STALE_BROKER_EPOCH])
async def test_unregistered_broker_registers_again(jumping_clock: MockClock, code: ErrorCode) -> None:
    controller = Controller()
    async with serving(controller) as (node, broker, nursery):
        await broker.start(nursery)
        controller.refusals = [code]
        controller.epoch = EPOCH + 7
        await trio.sleep(2.5)
        assert broker.lifecycle.broker_epoch == EPOCH + 7
        registrations = [request for request in node.requests if isinstance(request, BrokerRegistrationRequest)]
        assert [each.incarnation_id for each in registrations] == [REGISTRATION.incarnation_id] * 2
        assert heartbeats(node)[-1].broker_epoch == EPOCH + 7


async def test_unknown_error_code_counts_as_an_error(jumping_clock: MockClock) -> None:
    controller = Controller()
    async with serving(controller) as (_, broker, nursery):
        await broker.start(nursery)
        controller.refusals = [999]  # type: ignore[list-item]
        await trio.sleep(2.5)
        assert broker.harness.traced.of("broker_request_refused") == [
            {"node": ME, "request": "heartbeat", "error": "UNKNOWN_SERVER_ERROR"}
        ]


# Shutdown


async def test_shutdown_ends_when_the_controller_allows_it(jumping_clock: MockClock) -> None:
    controller = Controller()
    async with serving(controller) as (node, broker, nursery):
        await broker.start(nursery)
        controller.may_go = False
        nursery.start_soon(broker.lifecycle.shut_down)
        await trio.sleep(3)
        assert broker.lifecycle.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
        controller.may_go = True
        await trio.sleep(0.3)
        assert broker.lifecycle.state is BrokerState.SHUTTING_DOWN
        asked = len(node.requests)
        await trio.sleep(10)
        assert len(node.requests) == asked, "it says nothing any more"


async def test_shutdown_allowed_in_the_first_response_ends_at_once(jumping_clock: MockClock) -> None:
    async with serving(Controller()) as (_, broker, nursery):
        await broker.start(nursery)
        await trio.sleep(1)
        started = trio.current_time()
        await broker.lifecycle.shut_down()
        assert trio.current_time() - started < 0.001


async def test_shutdown_ends_soon_when_the_quorum_goes_down(jumping_clock: MockClock) -> None:
    """For example, when a whole cluster is stopped: no controller will respond."""
    controller = Controller()
    async with serving(controller) as (_, broker, nursery):
        await broker.start(nursery)
        controller.is_silent = True
        async with trio.open_nursery() as stopping:
            started = trio.current_time()
            stopping.start_soon(broker.lifecycle.shut_down)
            await trio.sleep(1)
            assert broker.lifecycle.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
            broker.harness.lose_majority()
        assert trio.current_time() - started == pytest.approx(1.25, abs=0.01)


async def test_shutdown_ends_soon_if_the_quorum_was_down_before(jumping_clock: MockClock) -> None:
    controller = Controller()
    async with serving(controller) as (_, broker, nursery):
        await broker.start(nursery)
        controller.is_silent = True
        broker.harness.lose_majority()
        await trio.sleep(1)
        assert broker.lifecycle.state is BrokerState.RUNNING
        started = trio.current_time()
        await broker.lifecycle.shut_down()
        assert trio.current_time() - started == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize("dies", [False, True])
async def test_shutdown_ends_without_a_reachable_controller(jumping_clock: MockClock, dies: bool) -> None:
    controller = Controller()
    async with serving(controller) as (node, broker, nursery):
        await broker.start(nursery)
        controller.is_silent = True
        await trio.sleep(2.5)  # a heartbeat is in flight
        if dies:
            node.drop_connections()
            broker.harness.announce(None, 2)
        started = trio.current_time()
        await broker.lifecycle.shut_down()
        assert trio.current_time() - started == pytest.approx(2, abs=0.1)


async def test_next_controller_allows_the_shutdown(jumping_clock: MockClock) -> None:
    controller = Controller()
    async with serving(controller) as (_, broker, nursery), scripted_node(Controller()) as second:
        await broker.start(nursery)
        controller.is_silent = True
        nursery.start_soon(broker.lifecycle.shut_down)
        await trio.sleep(1)
        broker.harness.announce(2, 2, second.address)
        await trio.sleep(0.05)
        assert broker.lifecycle.state is BrokerState.SHUTTING_DOWN
