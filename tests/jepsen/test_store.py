"""The report reads the files that a run writes."""

from collections.abc import Iterator
from pathlib import Path

import attrs

from jepsen.checkers import Anomaly, judge
from jepsen.history import History
from jepsen.store import Fault, RunPlan, Store, Uptime
from jepsen.values import Polling

PLAN = RunPlan(
    workload="queue",
    nemesis=("kill", "pause"),
    nodes=("node-1", "node-2", "node-3"),
    seconds=60.0,
    seed=7,
    started_at="2026-01-02T03:04:05+00:00",
    command="python -m jepsen run --workload queue",
    rate=200.0,
    parameters={"librdkafka": "2.10.0"},
)


class NoPolls:
    """No client polls.

    At all.
    """

    def check(self, history: History) -> Iterator[Anomaly]:
        for each in history.of("poll"):
            yield Anomaly("NoPolls", f"{each.client} reads", (each,))


def test_plan_faults_and_uptimes_come_back(tmp_path: Path) -> None:
    store = Store(tmp_path)
    faults = [Fault("kill", ("node-1",), 1.5, 3.25), Fault("halves", ("node-1>node-2", "node-2>node-1"), 5.0)]
    uptimes = [Uptime("node-1", 0.0, 0.5, 1.5, "killed"), Uptime("node-2", 0.25)]
    store.write_plan(PLAN)
    store.write_faults(faults)
    store.write_uptimes(uptimes)
    assert (store.plan(), store.faults(), store.uptimes()) == (PLAN, faults, uptimes)


def test_a_run_that_did_not_end_has_less(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert (store.faults(), store.uptimes(), store.verdict()) == ([], [], None)


def test_verdict_keeps_its_proofs(tmp_path: Path) -> None:
    history = History(lambda: 2.0)
    history.ok(history.invoke("c0", "poll", Polling("t", 0, 0)), ((0, "a"),))
    history.invoke("c1", "poll", Polling("t", 0, 1))
    verdict = judge(history, [NoPolls()], {"lost": "3 of 1,000"})
    assert not verdict.is_valid
    store = Store(tmp_path)
    store.write_verdict(verdict)
    read = store.verdict()
    assert read is not None
    (promise,) = read.promises
    assert (promise.name, promise.meaning, promise.broken) == ("NoPolls", "No client polls.", 2)
    proofs = [attrs.asdict(each.proof[0], recurse=False) for each in promise.anomalies]
    assert proofs == [attrs.asdict(each, recurse=False) for each in history.operations]
