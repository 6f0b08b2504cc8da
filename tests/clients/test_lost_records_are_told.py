"""A node that was killed, and whose files are damaged above the recovery point, prints in one line what it has
truncated.
"""

import re
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from tests.support.confluent_driver import create_topic, watermarks
from tests.support.node_process import NodeProcess

pytestmark = pytest.mark.clients

RECORDS = 4_000
SEGMENT_BYTES = 64 * 1024


def fill(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "batch.num.messages": 20, "linger.ms": 50})
    for number in range(RECORDS):
        producer.produce(topic, b"%d" % number + b"." * 100, partition=0)
    assert producer.flush(60) == 0


def warnings(node: NodeProcess) -> list[str]:
    return [line for line in node.output().splitlines() if ": storage_log_cut: recovery has cut " in line]


@pytest.mark.parametrize("damage", ["flipped byte", "missing segment", "torn tail", "none"])
def test_truncation_by_recovery_is_printed(new_node: Callable[..., NodeProcess], topic: str, damage: str) -> None:
    node = new_node()
    node.start()
    create_topic(node.bootstrap, topic, 1, **{"internal.segment.bytes": SEGMENT_BYTES})
    fill(node.bootstrap, topic)
    node.kill()

    segments = sorted((node.data_dir / f"{topic}-0").glob("*.log"))
    assert len(segments) >= 5
    if damage == "flipped byte":
        content = bytearray(segments[1].read_bytes())
        content[len(content) // 2] ^= 1
        segments[1].write_bytes(content)
    elif damage == "missing segment":
        segments[2].unlink()
    elif damage == "torn tail":
        segments[-1].write_bytes(segments[-1].read_bytes()[:-1])
    node.start()

    (_, end), *_ = watermarks(node.bootstrap, topic, 1)
    if damage == "none":
        assert end == RECORDS
        assert not warnings(node)
        return
    (line,) = warnings(node)
    assert (
        f"recovery has cut {topic}-0: the records from offset {end} to {RECORDS - 1} ({RECORDS - end} at most)" in line
    )
    assert re.search(rf", \d+ bytes from byte \d+ of {node.data_dir}/{topic}-0/\d{{20}}\.log on \(.+\)", line)
    assert end < RECORDS
