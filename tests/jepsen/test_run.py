"""Short runs with real nodes, librdkafka's clients and a nemesis; the command runs for longer."""

import json
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import cast

import pytest

from jepsen.checkers import Verdict
from jepsen.history import Outcome
from jepsen.processes.clients.client_process import ClientFailed
from jepsen.processes.faults import FaultContext
from jepsen.processes.faults.network_faults import ring_cuts
from jepsen.processes.nodes import ProcessCluster
from jepsen.processes.run.experiment import faults_written
from jepsen.store import Fault, Store
from tests.support.linux import needs_loopback_addresses

# Seconds that a fault lasts, and until the next, on average.
FAULTS = ("--fault", "4", "--peace", "1")
# Certificates between nodes, and SCRAM over TLS for clients.
SECURED = ("--security", "sasl_ssl")


def perform(directory: Path, workload: str, nemesis: str, *arguments: str) -> tuple[Store, Verdict]:
    """Perform a run, which must have no anomaly."""
    command = [sys.executable, "-m", "jepsen", "run", "--workload", workload, "--nemesis", nemesis, *arguments]
    result = subprocess.run(
        [*command, "--store", str(directory)], capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    (run,) = directory.iterdir()
    store = Store(run)
    verdict = store.verdict()
    assert verdict is not None
    assert verdict.is_valid
    return store, verdict


@pytest.mark.clients
@needs_loopback_addresses
def test_acknowledged_records_outlive_killed_nodes(tmp_path: Path) -> None:
    store, verdict = perform(tmp_path, "queue", "kill-leader", "--time", "6", "--rate", "50", *FAULTS, *SECURED)
    # The faults occurred, many records were acknowledged, and the final reads came from clients and disks.
    assert {fault.kind for fault in store.faults()} == {"kill-leader"}
    assert any(uptime.end == "kill -9" for uptime in store.uptimes())
    assert verdict.counts["send ok"] > 375
    assert verdict.counts["final-read ok"] == 4
    assert verdict.counts["read-replica ok"] == 12
    assert (store.directory / "report.html").exists()
    assert json.loads((store.directory / "run.json").read_text())["workload"] == "queue"
    output = "".join(path.read_text() for path in store.directory.glob("n*/output"))
    assert 'topic_created cause="CreateTopics of User:jepsen' in output


@pytest.mark.clients
@needs_loopback_addresses
def test_groups_outlive_their_coordinators_and_their_members(tmp_path: Path) -> None:
    store, verdict = perform(tmp_path, "commits", "kill-coordinator", "--time", "7", "--rate", "25", *FAULTS)
    assert {fault.kind for fault in store.faults()} == {"kill-coordinator"}
    assert {uptime.node for uptime in store.members()} == {"old1", "old2", "new1", "new2"}
    history = store.history()
    assert {each.value.group for each in history.of("commit", outcome=Outcome.OK)} == {"old", "new"}
    assert verdict.counts["heal ok"] == 3
    assert verdict.counts["read-replica ok"] == 24


@pytest.mark.clients
@needs_loopback_addresses
def test_transactions_outlive_their_coordinators(tmp_path: Path) -> None:
    store, verdict = perform(tmp_path, "transactions", "kill-coordinator", "--time", "7", *FAULTS, *SECURED)
    faults = store.faults()
    assert {fault.kind for fault in faults} == {"kill-coordinator"}
    assert all(fault.detail.startswith("of transactional id ") for fault in faults)
    assert verdict.counts["end-transaction ok"] > 10
    assert verdict.counts["final-offsets ok"] == 1
    assert verdict.counts["poll-transaction ok"] > 2
    history = store.history()
    ended = {each.client for each in history.of("end-transaction", outcome=Outcome.OK)}
    assert ended >= {"m1a", "m2a", "m3a"}
    assert ended & {"b1a", "b1b"}
    assert any(each.result for each in history.of("poll", outcome=Outcome.OK) if each.client == "c2")


@pytest.mark.clients
@needs_loopback_addresses
def test_share_groups_outlive_the_leaders_of_their_partitions(tmp_path: Path) -> None:
    store, verdict = perform(tmp_path, "shares", "kill-leader", "--time", "7", *FAULTS, *SECURED)
    assert {fault.kind for fault in store.faults()} == {"kill-leader"}
    assert verdict.counts["final-read ok"] == verdict.counts["read-share-states ok"] == 4
    assert verdict.counts["read-replica ok"] == 36
    delivered = {each.client.partition(".")[0] for each in store.history().of("acquire", outcome=Outcome.OK)}
    assert delivered >= {"known1", "known2", "known3", "mixed3"}
    assert delivered & {"mixed1", "mixed2", "mixed4"}, "members of libraries"
    described = store.history().of("describe-empty-share-group", outcome=Outcome.OK)
    assert [(each.value, each.result) for each in described] == [("known", "Empty"), ("mixed", "Empty")]
    assert int(verdict.notes["known: RELEASE stored"]) > 0
    assert int(verdict.notes["mixed: ACCEPT stored"]) > 0


def test_runs_without_certificates_do_not_need_the_package_that_makes_them() -> None:
    program = "import jepsen.processes.run.command, sys; sys.exit('cryptography' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.parametrize("count", [3, 5])
def test_in_a_ring_everybody_reaches_a_majority_and_no_two_the_same(count: int) -> None:
    names = [f"n{index}" for index in range(count)]
    cuts = ring_cuts(names)
    hears = {name: frozenset(other for other in names if other == name or (other, name) not in cuts) for name in names}
    assert all(len(heard) == count // 2 + 1 for heard in hears.values())
    assert len(set(hears.values())) == count


def test_run_without_a_verdict_leaves_the_faults_that_may_explain_it(tmp_path: Path) -> None:
    context = FaultContext(cast(ProcessCluster, None), "queue", Random(1), lambda: 7.0, lambda what: None)
    with pytest.raises(ClientFailed), faults_written(tmp_path, context), context.recorded("halves", ["n1"]):
        raise ClientFailed("range1.1: no end")
    assert Store(tmp_path).faults() == [Fault("halves", ("n1",), 7.0, 7.0)]
