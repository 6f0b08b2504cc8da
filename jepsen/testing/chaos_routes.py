"""The resources of the control port for chaos.

POST   /clusters/NAME/chaos     {"seed": 7, "seconds": 10, "faults": ["kill", "partition"], "topics": ["orders"]}
GET    /clusters/NAME/chaos/ID  {"replay": "cluster.chaos(...)", "plan": [...], "done": 3, "refused": 0}
POST   /clusters/NAME/chaos/ID  {"wait": true, "timeout": 30}: until all is healed
DELETE /clusters/NAME/chaos/ID  ends it, and heals the cluster
"""

import secrets
from typing import Any, Final

import trio

from jepsen.testing.chaos import ChaosRun, ChaosSpec, plan_chaos
from jepsen.testing.chaos.chaos_plan import ChaosRefused, default_faults
from jepsen.testing.control_server import Request
from jepsen.testing.errors import BadRequest, NotReached, NotThere
from jepsen.testing.hosted_cluster import HostedCluster
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


async def serve_chaos(cluster: HostedCluster, run_id: str, request: Request) -> object:
    """Describe a run, wait for its end, or end it."""
    run = cluster.chaos.get(run_id)
    if run is None:
        raise NotThere(f"no chaos {run_id}")
    if request.method == "DELETE":
        await run.end()
    elif request.method == "POST":
        words = Words(request.body)
        words.true("wait")
        timeout_s = words.number("timeout", _WAIT_S)
        words.end()
        with trio.move_on_after(timeout_s):
            await run.ended.wait()
        if not run.ended.is_set():
            raise NotReached(f"{run_id} has not ended after {timeout_s:g} s")
    elif request.method != "GET":
        raise NotThere(f"no {request.method} {request.path}")
    described: dict[str, Any] = run.described()
    return described


async def end_all(cluster: HostedCluster, words: Words) -> object:
    """End all chaos and all faults of a cluster. Returns the ids of those that were in force."""
    words.end()
    ended = [run.id for run in cluster.chaos.values() if not run.ended.is_set()]
    for run in list(cluster.chaos.values()):
        await run.end()
    return {"ended": ended + await cluster.faults.end_all()}
