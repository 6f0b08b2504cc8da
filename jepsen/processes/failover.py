"""`python -m jepsen failover`: faults of the active controller under a steady stream of CreateTopics.

--trouble kill      kill -9, again and again, and the time until the next topic is created
--trouble pause     SIGSTOP for a while: the others elect, and the old one writes nothing when it wakes
--trouble deafness  a follower that is heard and hears nothing: it must not disturb the others
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeAlias

import attrs
import trio

from jepsen.processes.cluster_status import quorum_status
from jepsen.processes.creates import (
    Creation,
    Creator,
    anomalies,
    creations_of,
    first_success_after,
    running_creators,
)
from jepsen.processes.nodes import ProcessCluster, running_cluster

# Longer than any failover may take.
_TIMEOUT_SECONDS: Final = 30.0
Trouble: TypeAlias = Callable[[ProcessCluster, "list[Creator]", argparse.Namespace], Awaitable["Findings"]]


@attrs.frozen
class Findings:
    """`outages` are the seconds without a successful creation, one for each fault. `violations` describes errors."""

    outages: list[float]
    violations: list[str]
    remarks: list[str]


async def kill_controllers(cluster: ProcessCluster, creators: list[Creator], options: argparse.Namespace) -> Findings:
    outages = []
    for _ in range(options.times):
        victim = cluster.by_id((await quorum_status(cluster)).leader_id)
        moment = time.monotonic()
        await victim.kill()
        outages.append(await _next_success(creators, moment))
        await victim.start()
        await victim.wait_serving()
        await trio.sleep(options.pause)
    return Findings(outages, [], [])


async def pause_controller(cluster: ProcessCluster, creators: list[Creator], options: argparse.Namespace) -> Findings:
    outages, violations, remarks = [], [], []
    for _ in range(options.times):
        before = await quorum_status(cluster)
        victim = cluster.by_id(before.leader_id)
        moment = time.monotonic()
        victim.pause()
        outages.append(await _next_success(creators, moment))
        await trio.sleep(max(0.0, moment + options.seconds - time.monotonic()))
        during = await quorum_status(cluster, besides=victim.name)
        victim.resume()
        await trio.sleep(options.pause)
        after = await quorum_status(cluster)
        remarks.append(f"epochs {before.epoch}, {during.epoch} while it was stopped, {after.epoch} after it woke")
        if (during.leader_id, during.epoch) != (after.leader_id, after.epoch):
            violations.append(f"the old controller disturbs: {during} became {after}")
        if during.leader_id == before.leader_id:
            violations.append(f"no other controller took over from {before}")
    return Findings(outages, violations, remarks)


async def deafen_follower(cluster: ProcessCluster, creators: list[Creator], options: argparse.Namespace) -> Findings:
    before = await quorum_status(cluster)
    victim = next(node for node in cluster.nodes.values() if node.node_id != before.leader_id)
    cluster.links.shut(cluster.links.towards(victim.name))
    moment = time.monotonic()
    await trio.sleep(options.seconds)
    during = await quorum_status(cluster, besides=victim.name)
    cluster.links.open_all()
    await trio.sleep(options.pause)
    after = await quorum_status(cluster)
    violations = []
    if after.epoch > before.epoch + 1:
        violations.append(f"the epoch grew from {before.epoch} to {after.epoch}")
    remarks = [f"epochs {before.epoch}, {during.epoch} while {victim.name} was deaf, {after.epoch} after it"]
    return Findings([await _next_success(creators, moment)], violations, remarks)


TROUBLES: Final[dict[str, Trouble]] = {
    "kill": kill_controllers,
    "pause": pause_controller,
    "deafness": deafen_follower,
}


async def _next_success(creators: list[Creator], moment: float) -> float:
    with trio.fail_after(_TIMEOUT_SECONDS):
        while (seconds := first_success_after(creations_of(creators), moment)) is None:
            await trio.sleep(0.005)
    return seconds


async def failover(directory: Path, options: argparse.Namespace) -> int:
    """Run the test. Returns the exit status."""
    async with running_cluster(directory, nodes=options.nodes) as cluster:
        with running_creators(cluster.bootstrap, options.clients, options.interval) as creators:
            await trio.sleep(1)
            findings = await TROUBLES[options.trouble](cluster, creators, options)
            await trio.sleep(1)
        creations = creations_of(creators)
        violations = findings.violations + await trio.to_thread.run_sync(anomalies, cluster.bootstrap, creations)
    print(report(findings, creations, violations))
    return 1 if violations else 0


def report(findings: Findings, creations: list[Creation], violations: list[str]) -> str:
    errors = [each.error for each in creations if each.error is not None]
    outages = sorted(1000 * each for each in findings.outages)
    return "\n".join(
        [
            f"{len(creations)} topics asked for, {len(creations) - len(errors)} acknowledged; "
            + (", ".join(f"{errors.count(name)} {name}" for name in sorted({*errors})) or "no errors"),
            f"until the next success: median {statistics.median(outages):.0f} ms, worst {outages[-1]:.0f} ms "
            f"of {len(outages)}",
            *findings.remarks,
            *(f"WRONG: {wrong}" for wrong in violations),
            "no topic was lost or created in part" if not violations else f"{len(violations)} violations",
        ]
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trouble", choices=list(TROUBLES), default="kill")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--times", type=int, default=10, help="how many times")
    parser.add_argument("--seconds", type=float, default=30.0, help="seconds that a pause or a one-way partition lasts")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds without faults after each")
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--interval", type=float, default=0.02, help="seconds between a client's creations")


def run(options: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory(prefix="kraft-failover-") as directory:
        return trio.run(failover, Path(directory), options)
