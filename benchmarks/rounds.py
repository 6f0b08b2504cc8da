"""Rounds of measurements that alternate between nodes or clusters."""

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import KafkaException

from benchmarks.figures import Figure, Series
from benchmarks.loadgen import LoadFailed
from benchmarks.peers import Subject

# A JVM compiles code that runs often. So all nodes first run every load in this many unmeasured rounds. Those of the
# benchmark page take half a minute on each node.
WARM_UP_ROUNDS = 1

# CPU time of all peers together, as a part of a core, below which they have ended the work that the last load left. An
# idle cluster of JVMs takes a quarter.
_IDLE_CORES: Final = 0.4
_LOOK_S: Final = 0.05
_IDLE_WITHIN_S: Final = 3.0


def alternate(
    peers: Sequence[Subject],
    parts: Mapping[str, Callable[[Any, float], list[Figure]]],
    series: Series,
    rounds: int,
    seconds: float,
) -> None:
    """Measure every part on every peer in each round. A round that fails is noted in the series.

    The rounds of a part are spread over the whole run, so that a disturbance of some seconds meets one round of each
    peer at most. The first peer of a round is the last of the next one.

    A load begins when the peers have become idle. Beside Apache Kafka's cluster that still deleted the hundred logs of
    the load before, this project's read a third fewer records per second.
    """
    for number in range(-WARM_UP_ROUNDS, rounds):
        print(
            f"... warm-up {number + WARM_UP_ROUNDS + 1}" if number < 0 else f"... round {number + 1}", file=sys.stderr
        )
        for name, part in parts.items():
            for peer in peers[:: -1 if number % 2 else 1]:
                wait_until_idle(peers)
                try:
                    found = part(peer, seconds)
                except (LoadFailed, KafkaException) as why:
                    series.failed.append(f"{name}, {peer.name}: {why}")
                    continue
                if number >= 0:
                    series.add(peer.name, found)


def wait_until_idle(peers: Sequence[Subject]) -> None:
    """Wait until the peers use little CPU time, for three seconds at most."""
    deadline = time.monotonic() + _IDLE_WITHIN_S
    before, then = _used(peers), time.monotonic()
    while then < deadline:
        time.sleep(_LOOK_S)
        used, now = _used(peers), time.monotonic()
        if used - before < _IDLE_CORES * (now - then):
            return
        before, then = used, now


def _used(peers: Sequence[Subject]) -> float:
    return sum(peer.cpu_seconds() for peer in peers)


def exit_code(measured: Iterable[Series]) -> int:
    """Print the rounds that failed. Returns 1 if there are any."""
    failed = [each for series in measured for each in series.failed]
    for each in failed:
        print(f"failed: {each}", file=sys.stderr)
    return 1 if failed else 0
