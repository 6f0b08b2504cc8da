"""The driver of a share-partition: when it looks at the locks, and what it reports (KIP-932)."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from broker.coordinator.runtime.completion import Completion, completed, failed
from broker.coordinator.share.share_state import SharePartitionKey
from broker.net.deadlines import Deadline, Deadlines
from broker.share_partitions.acquisition import Acquisition, FetchedBatch
from broker.share_partitions.led_partition import LeaderContext, LedSharePartition
from broker.share_partitions.settings import DeliverySettings
from broker.share_partitions.share_partition import SharePartition
from broker.wire.errors import ErrorCode, KafkaError
from tests.support.running_node import Traced

# The time at which the records are acquired.
NOW_MS = 1100.1


class RecordedDeadlines(Deadlines):
    """Deadlines that the test calls back."""

    def add(self, when: float, callback: Callable[[], None]) -> Deadline:
        self.last = super().add(when, callback)
        return self.last


class Store:
    """A share coordinator that stores everything at once, and knows no state."""

    def write(self, *_: Any) -> Completion[None]:
        return completed(None)

    def read(self, *_: Any) -> Completion[Any]:
        return failed(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "no state"))


def led_partition(
    deadlines: Deadlines, settings: DeliverySettings, now_ms: float = 0.0, traced: Traced | None = None
) -> LedSharePartition:
    context = LeaderContext(
        cast("Any", Store()),
        deadlines,
        lambda _: settings,
        lambda: now_ms,
        lambda: 0,
        lambda *_: None,
        traced or Traced(),
        cast("Any", None),
    )
    partition = SimpleNamespace(leader_epoch=0, topic="topic", index=0)
    return LedSharePartition(SharePartitionKey("group", b"topic", 0), cast("Any", partition), context)


def test_failure_of_the_share_coordinator_is_reported_with_its_code_once() -> None:
    traced = Traced()
    led_partition(Deadlines(), DeliverySettings(), traced=traced).load(lambda steps: None)
    (event,) = traced.of("share_partition_failed")
    assert event["error"] == "UNKNOWN_SERVER_ERROR: no state"


def test_lock_expires_at_its_deadline_though_the_clock_is_a_rounding_error_before_it() -> None:
    deadlines, settings = RecordedDeadlines(), DeliverySettings(record_lock_duration_ms=1000)
    expiry_ms = NOW_MS + 1000
    now_ms = expiry_ms - 1e-9
    led = led_partition(deadlines, settings, now_ms)
    led.state = SharePartition(settings, 0, 0)
    led.state.acquire([FetchedBatch(0, 9)], 0, Acquisition("anna", 500), NOW_MS)
    led._schedule_expiry()
    callback = deadlines.last.callback
    assert callback is not None
    callback()
    assert led.state.next_fetch_offset() == 0, "the records are available again"
    assert deadlines.last.callback is callback, "the locks are not looked at again"
