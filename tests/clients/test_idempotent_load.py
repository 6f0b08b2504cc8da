"""An idempotent producer writes exactly once: under normal load, and with repeated kills of the node."""

import random
import threading
import time
from collections.abc import Callable

import pytest

from tests.support.confluent_driver import create_topic
from tests.support.counted_load import CountedLoad
from tests.support.node_process import NodeProcess

pytestmark = pytest.mark.clients

PARTITIONS = 6


def test_every_record_of_a_load_is_read_back_exactly_once(
    bootstrap: str, topic: str, full: bool, figure: Callable[[str], None]
) -> None:
    create_topic(bootstrap, topic, PARTITIONS)
    load = CountedLoad(bootstrap, topic, PARTITIONS)
    began = time.monotonic()
    load.send(1_000_000 if full else 50_000)
    load.assert_all_delivered()
    wrote = time.monotonic()
    load.assert_read_exactly_once(bootstrap)
    figure(
        f"{load.sent} records over {PARTITIONS} partitions: {wrote - began:.2f} s to write, "
        f"{time.monotonic() - wrote:.2f} s to read"
    )


@pytest.mark.seeds(1)
def test_a_killed_node_loses_and_doubles_nothing(
    new_node: Callable[..., NodeProcess], topic: str, seed: int, full: bool, figure: Callable[[str], None]
) -> None:
    """Data in the page cache survives the process, so every acknowledged record exists after each kill -9."""
    kills, records = (20, 1_000_000) if full else (3, 60_000)
    kill_after = sorted(random.Random(seed).sample(range(records * 9 // 10), kills))
    node = new_node()
    node.start()
    create_topic(node.bootstrap, topic, PARTITIONS, segment_bytes=1_048_576)
    load = CountedLoad(node.bootstrap, topic, PARTITIONS)
    sender = threading.Thread(target=load.send, args=(records,), daemon=True)
    sender.start()
    starts_s, waiting = [], []
    for delivered in kill_after:
        load.wait_for_delivery(delivered)
        node.kill()
        waiting.append(load.sent - load.delivered)
        starts_s.append(node.start())
        load.assert_acknowledged_held(node.bootstrap)
    sender.join()
    load.assert_all_delivered()
    load.assert_read_exactly_once(node.bootstrap)
    figure(
        f"{kills} kills in {load.sent} records, {min(waiting)} to {max(waiting)} of them not yet acknowledged, "
        f"start-up {min(starts_s):.2f} to {max(starts_s):.2f} s"
    )
    node.stop()
