"""The resources of the control port for chaos."""

import secrets
from typing import Final

import attrs
import trio

from jepsen.testing.chaos import ChaosRun, ChaosSpec, plan_chaos
from jepsen.testing.chaos.chaos_plan import KINDS, SECONDS_MAX, ChaosRefused, default_faults
from jepsen.testing.errors import BadRequest, NotReached, NotThere
from jepsen.testing.hosted_cluster import HostedCluster
from jepsen.testing.route import Route
from jepsen.testing.word_types import Word
from jepsen.testing.words import Words

_SEED_BITS: Final = 32
_SECONDS: Final = 10.0
_WAIT_S: Final = 60.0


async def begin_chaos(cluster: HostedCluster, words: Words) -> object:
    """Begin to cause faults. Raises BadRequest."""
    seed = words.integer("seed") if "seed" in words else secrets.randbits(_SEED_BITS)
    seconds = words.number("seconds", _SECONDS)
    topics = tuple(words.names("topics"))
    faults = tuple(words.names("faults")) or default_faults(len(cluster.nodes), topics)
    words.end()
    spec = ChaosSpec(seed, seconds, faults, topics)
    try:
        plan = plan_chaos(spec, list(cluster.nodes))
    except ChaosRefused as refused:
        raise BadRequest(str(refused)) from refused
    run = ChaosRun(f"chaos-{len(cluster.chaos) + 1}", spec, plan, cluster)
    cluster.chaos[run.id] = run
    cluster.nursery.start_soon(run.run)
    return run.described()


async def _describe(cluster: HostedCluster, run_id: str, words: Words) -> object:
    return _find(cluster, run_id).described()


async def _wait(cluster: HostedCluster, run_id: str, words: Words) -> object:
    run = _find(cluster, run_id)
    words.true("wait")
    timeout_s = words.number("timeout", _WAIT_S)
    words.end()
    with trio.move_on_after(timeout_s):
        await run.ended.wait()
    if not run.ended.is_set():
        raise NotReached(f"{run_id} has not ended after {timeout_s:g} s")
    return run.described()


async def _end(cluster: HostedCluster, run_id: str, words: Words) -> object:
    run = _find(cluster, run_id)
    await run.end()
    return run.described()


def _find(cluster: HostedCluster, run_id: str) -> ChaosRun:
    run: ChaosRun | None = cluster.chaos.get(run_id)
    if run is None:
        raise NotThere(f"no chaos {run_id}")
    return run


async def end_all(cluster: HostedCluster, words: Words) -> object:
    """End all chaos and all faults of a cluster. Returns the ids of those that were in force."""
    words.end()
    ended = [run.id for run in cluster.chaos.values() if not run.ended.is_set()]
    for run in list(cluster.chaos.values()):
        await run.end()
    return {"ended": ended + await cluster.faults.end_all()}


_PATH: Final = "/clusters/{cluster}/chaos"
_RUN_PATH: Final = "/clusters/{cluster}/chaos/{chaos}"
CHAOS_ROUTES: Final = (
    Route(
        "POST",
        _PATH,
        "beginChaos",
        "Cause faults, one after the other, that a seed chooses",
        "Chaos",
        begin_chaos,
        {
            "seed": Word.integer("Chooses the faults and their targets. By default, a random one."),
            "seconds": Word.number(f"How long faults are caused: at most {SECONDS_MAX:g}.", default=_SECONDS),
            "topics": Word.names("Topics whose leaders are moved, and have half of the faults of processes."),
            "faults": Word.names("The kinds to choose from. By default, all that the cluster can have.", KINDS),
        },
        examples=({"seed": 7, "seconds": 2, "faults": ["slow", "clock"], "topics": ["orders"]},),
    ),
    Route("GET", _RUN_PATH, "describeChaos", "Describe a run of chaos", "Chaos", _describe),
    Route(
        "POST",
        _RUN_PATH,
        "waitForChaos",
        "Wait until a run of chaos has ended, and all is healed",
        "Chaos",
        _wait,
        {
            "wait": attrs.evolve(Word.true("Wait."), required=True),
            "timeout": Word.number("Seconds.", default=_WAIT_S),
        },
        refusals=(NotReached,),
        examples=({"wait": True, "timeout": 30},),
    ),
    Route("DELETE", _RUN_PATH, "endChaos", "End a run of chaos, and heal the cluster", "Chaos", _end),
    Route(
        "DELETE",
        "/clusters/{cluster}/faults",
        "endAllFaults",
        "End all faults and all chaos of a cluster",
        "Ended",
        end_all,
    ),
)
