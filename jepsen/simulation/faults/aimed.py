"""Crashes aimed at steps of a protocol: at random times they hit the same few milliseconds hardly ever."""

import trio

from jepsen.simulation.faults.fault import Strike
from jepsen.simulation.faults.of_processes import DOWN_SECONDS_MAX
from jepsen.simulation.trace import Event

# What nodes trace at steps that something may go wrong after.
STEPS = (
    "process-started",
    "log_recovered",
    "role",
    *("vote_synced",) * 3,  # where a loss is seldom, and the worst
    "leader",
    "log_written",
    "log_synced",
    "log_truncated",
    "committed",
    "voters_changed",
    "snapshot_taken",
    "snapshot_installed",
    "node-started",
    "storage.log_dir_loaded",
    "storage.log_renamed",
    "storage.segment_rolled",
)
# Steps that hardly come by themselves within a strike's time: those of a start, and those of an election.
_OF_STARTS = ("process-started", "log_recovered", "node-started", "storage.log_dir_loaded")
_OF_ELECTIONS = ("role", "vote_synced", "leader", "log_truncated")
# At the very instruction, or so much later that a message or an fsync is under way, or has just come.
DELAYS_SECONDS = (0.0, 0.0, 0.0005, 0.002, 0.01)
ARMED_SECONDS_MAX = 8.0
CRASHES_MAX = 4


class Aimed:
    """For a while, whoever takes a certain step crashes then or a little later."""

    def __init__(self, *, power: bool) -> None:
        self._power = power

    async def strike(self, strike: Strike) -> None:
        rng, trace = strike.rng, strike.cluster.simulation.trace
        step = rng.choice([each for each in STEPS if each in trace.kinds])
        chance, crashes = rng.choice((0.1, 0.5, 1.0)), 0

        def listen(event: Event) -> None:
            nonlocal crashes
            is_target = event.kind == step and event.host in strike.cluster.nodes
            if is_target and crashes < CRASHES_MAX and rng.random() < chance:
                crashes += 1
                self._aim(strike, event)

        trace.listeners.append(listen)
        try:
            if step in _OF_ELECTIONS and strike.cluster.leader is not None:
                strike.cluster.crash(strike.cluster.leader, power=self._power, down_seconds=DOWN_SECONDS_MAX)
            elif step in _OF_STARTS:
                strike.cluster.crash(strike.a_node(), power=self._power, down_seconds=0)
            await trio.sleep(rng.uniform(1, ARMED_SECONDS_MAX))
        finally:
            trace.listeners.remove(listen)

    def _aim(self, strike: Strike, event: Event) -> None:
        host = strike.cluster.nodes[event.host]
        incarnation = host.incarnation
        down_seconds = strike.rng.choice((0.0, DOWN_SECONDS_MAX * strike.rng.random()))

        def crash() -> None:
            if host.is_current(incarnation):
                strike.cluster.crash(host, power=self._power, down_seconds=down_seconds)

        delay = strike.rng.choice(DELAYS_SECONDS)
        if delay:
            strike.cluster.simulation.clock.after(delay * strike.rng.random(), crash)
        else:
            crash()
