"""Measures many transactions that are left open: their coordinator dies, then they time out and expire."""

import sys
import time
from typing import Final

from benchmarks import transactional_ids, watched_node
from benchmarks.clusters import Cluster
from benchmarks.figures import Figure
from benchmarks.processes import resident_mb

# Short times, so that a run sees them pass.
OVERRIDES: Final = {
    "transactional.id.expiration.ms": "15000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "10000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "10000",
    "offsets.topic.num.partitions": "5",
}
# The default of transaction.max.timeout.ms.
_TIMEOUT_MS_MAX: Final = 900_000
_SPARE_S: Final = 10.0


class OpenTransactions:
    """The measurement on one cluster. The first node coordinates all `count` transactions; after its death the second
    one does. On watched nodes, every step also has the longest hold of an event loop.
    """

    def __init__(self, cluster: Cluster, count: int) -> None:
        self._cluster = cluster
        self._first, self._second = cluster.members[:2]
        self._count = count
        self._is_watched = isinstance(self._second, watched_node.WatchedMember)
        self._seen: dict[int, int] = {}
        self._figures: list[Figure] = []
        self._times_out_at = 0.0

    def measure(self) -> list[Figure]:
        self._prepare()
        opened = self._open()
        probes = transactional_ids.last_of_partitions(opened)
        self._kill(probes)
        left = transactional_ids.without(opened, probes)
        self._time_out_and_expire(transactional_ids.last_of_partitions(left))
        return self._figures

    def _prepare(self) -> None:
        """Open some transactions, to see how long that takes."""
        transactional_ids.create_topics(self._cluster)
        count = max(self._count // 20, 100)
        began = time.perf_counter()
        transactional_ids.open_transactions(self._first.port, count, lambda: _TIMEOUT_MS_MAX, prefix="warm")
        each_s = (time.perf_counter() - began) / count
        # Opening takes less time than this, so that all transactions time out together.
        self._times_out_at = time.perf_counter() + 1.5 * each_s * self._count + _SPARE_S
        self._holds()

    def _open(self) -> list[transactional_ids.OpenTransaction]:
        def timeout_ms() -> int:
            return max(1, int(1e3 * (self._times_out_at - time.perf_counter())))

        memory, began = resident_mb(self._first.pid), time.perf_counter()
        opened = transactional_ids.open_transactions(self._first.port, self._count, timeout_ms)
        self._add(f"open {self._count:,} transactions", time.perf_counter() - began)
        growth = (resident_mb(self._first.pid) - memory) * 1e6 / self._count
        self._figures.append(Figure("memory of the coordinator", "bytes/id", growth, False))
        assert time.perf_counter() < self._times_out_at, "the machine is too busy: transactions have timed out"
        return opened

    def _kill(self, probes: list[transactional_ids.OpenTransaction]) -> None:
        """Kill the coordinator, and abort a transaction of each partition of `__transaction_state`."""
        killed = time.perf_counter()
        self._first.kill()
        ended = transactional_ids.seconds_until_ended(self._second.port, probes, killed)
        self._figures.append(Figure("kill -9 to the first EndTxn that is served", "s", ended[0], False))
        self._add("kill -9 to EndTxn in all partitions", ended[-1])

    def _time_out_and_expire(self, probes: list[transactional_ids.OpenTransaction]) -> None:
        port = self._second.port
        time.sleep(max(0.0, self._times_out_at - time.perf_counter()))
        self._holds()
        transactional_ids.wait_until_begun(port, probes)
        began = time.perf_counter()
        transactional_ids.wait_until_aborted(port, probes)
        self._add(f"time out {self._count:,} transactions", time.perf_counter() - began)
        assert not transactional_ids.count_transactions(port, ["PrepareAbort"])
        self._holds()
        transactional_ids.wait_until_one_is_gone(port, probes)
        began = time.perf_counter()
        transactional_ids.wait_until_gone(port, probes)
        self._add(f"expire {self._count:,} transactional ids", time.perf_counter() - began)

    def _add(self, step: str, seconds: float) -> None:
        self._figures.append(Figure(step, "s", seconds, False))
        holds = self._holds()
        print(f"... {step}: {seconds:.2f} s, longest holds {holds[:5]}", file=sys.stderr)
        if self._is_watched:
            longest = holds[0].milliseconds if holds else 0.0
            self._figures.append(Figure(f"{step}: longest hold of a loop", "ms CPU", longest, False))

    def _holds(self) -> list[watched_node.Hold]:
        """The holds that the nodes have reported since the last call, the longest first."""
        found = []
        for member in self._cluster.members if self._is_watched else ():
            output = member.log.read_text(errors="replace")
            found += watched_node.holds(output[self._seen.get(member.place.node_id, 0) :])
            self._seen[member.place.node_id] = len(output)
        return sorted(found, reverse=True)
