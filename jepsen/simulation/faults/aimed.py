"""Faults aimed at single steps of a protocol. These steps last milliseconds, so random times seldom hit them."""

from typing import Protocol

import trio

from broker.coordinator.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from jepsen.simulation.faults.fault import FaultInjection
from jepsen.simulation.faults.process_faults import DOWN_SECONDS_MAX
from jepsen.simulation.hosts import Host
from jepsen.simulation.trace import Event

# The trace events after which an aimed fault strikes.
STEPS = (
    "process_started",
    "log_recovered",
    "role_changed",
    *("vote_synced",) * 3,  # losses at this step are rare and do the most damage
    "leader_elected",
    "log_written",
    "log_synced",
    "log_truncated",
    "committed",
    "voters_changed",
    "snapshot_taken",
    "snapshot_installed",
    "partition_led",
    "partition_followed",
    "partition_truncated",
    *("isr_proposed",) * 2,
    *("isr_changed",) * 2,
    "node_started",
    "storage_log_dir_loaded",
    "storage_log_renamed",
    "storage_segment_rolled",
    *("replica_move_began", "replica_move_assigned", "replica_moved"),
    *("coordinator_loaded",) * 2,
    "coordinator_unloaded",
    *("replica_wrote",) * 2,
    *("replica_committed",) * 2,
    *("replica_ended_transaction",) * 2,
)
# Steps that random choice would rarely select: those of a start, of an election, and of replication.
_OF_STARTS = ("process_started", "log_recovered", "node_started", "storage_log_dir_loaded")
_OF_ELECTIONS = ("role_changed", "vote_synced", "leader_elected", "log_truncated")
_OF_REPLICATION = (
    *("partition_led", "partition_followed", "partition_truncated", "isr_proposed", "isr_changed"),
    *("coordinator_loaded", "coordinator_unloaded"),
)
# Events of records are frequent. Without an application, only those of a coordinator's records count as steps.
_OF_COORDINATORS = ("replica_wrote", "replica_committed")
# The replica observer traces these. A fault waits until it has observed all of the node, since it would go on with a
# dead process: then a replica commits records after the power cut.
_OF_OBSERVER = (*_OF_COORDINATORS, "replica_ended_transaction")
# A transaction is prepared and completed in one of these, and its markers are written between the two.
_COORDINATORS_TOPICS = (CONSUMER_OFFSETS, TRANSACTION_STATE)
# Immediately, or later, when a message or an fsync is in progress or has just completed.
DELAYS_SECONDS = (0.0, 0.0, 0.0005, 0.002, 0.01)
ARMED_SECONDS_MAX = 8.0
HITS_MAX = 4
CUT_SECONDS_MAX = 6.0


class AimedEffect(Protocol):
    """The fault that follows a step. With `power`, it cuts the power of the node and of nodes that fail with it."""

    power: bool

    def hit(self, injection: FaultInjection, host: Host) -> None: ...


class Aimed:
    """For some seconds, applies `aim` to nodes that take a randomly chosen step, immediately or a little later."""

    def __init__(self, aim: AimedEffect) -> None:
        self._aim = aim

    async def inject(self, injection: FaultInjection) -> None:
        rng, trace = injection.rng, injection.cluster.simulation.trace
        step = _random_step(injection)
        chance, hits = rng.choice((0.1, 0.5, 1.0)), 0

        def listen(event: Event) -> None:
            nonlocal hits
            is_target = event.kind == step and event.host in injection.cluster.nodes
            if is_target and step in _OF_COORDINATORS and not injection.cluster.applications:
                is_target = event.fields["topic"] in _COORDINATORS_TOPICS
            if is_target and hits < HITS_MAX and rng.random() < chance:
                hits += 1
                self._schedule_effect(injection, step, self._target(injection, event))

        trace.listeners.append(listen)
        try:
            if step in _OF_ELECTIONS and injection.cluster.leader is not None:
                injection.cluster.crash(injection.cluster.leader, power=self._aim.power, down_seconds=DOWN_SECONDS_MAX)
            elif step in (*_OF_STARTS, *_OF_REPLICATION):
                injection.cluster.crash(injection.rng.choice(injection.nodes), power=self._aim.power, down_seconds=0)
            await trio.sleep(rng.uniform(1, rng.choice((2.0, ARMED_SECONDS_MAX))))
        finally:
            trace.listeners.remove(listen)

    def _target(self, injection: FaultInjection, event: Event) -> Host:
        """The node that takes the step; sometimes the node on whose behalf it takes the step, or an application."""
        applications = list(injection.cluster.applications.values())
        if applications and injection.rng.random() < 0.5:
            return injection.rng.choice(applications)
        joining = event.fields.get("joining")
        others = [host for host in injection.nodes if injection.cluster.ids.get(host.name) == joining]
        if joining is not None and others and injection.rng.random() < 0.5:
            return others[0]
        return injection.cluster.nodes[event.host]

    def _schedule_effect(self, injection: FaultInjection, step: str, host: Host) -> None:
        incarnation = host.incarnation

        def hit() -> None:
            if host.is_current(incarnation):
                self._aim.hit(injection, host)

        delay = injection.rng.choice(DELAYS_SECONDS)
        if delay or step in _OF_OBSERVER:
            injection.cluster.simulation.clock.after(delay * injection.rng.random(), hit)
        else:
            hit()


def _random_step(injection: FaultInjection) -> str:
    """A step that has occurred before. Applications fail most often between two of their records or commits."""
    present = [each for each in STEPS if each in injection.cluster.simulation.trace.kinds]
    if injection.cluster.applications and injection.rng.random() < 0.5:
        present = [each for each in present if each in _OF_COORDINATORS] or present
    return injection.rng.choice(present)


class Crash:
    """Kills the node's process, or cuts its power."""

    def __init__(self, *, power: bool) -> None:
        self.power = power

    def hit(self, injection: FaultInjection, host: Host) -> None:
        down_seconds = injection.rng.choice((0.0, DOWN_SECONDS_MAX * injection.rng.random()))
        injection.cluster.crash(host, power=self.power, down_seconds=down_seconds)


class Cut:
    """Blocks or delays the link from the node to another one, the link back, or both, for some seconds."""

    power = False

    def hit(self, injection: FaultInjection, host: Host) -> None:
        simulation, others = injection.cluster.simulation, [each for each in injection.nodes if each is not host]
        if not others:
            return
        other, late = injection.rng.choice(others), injection.rng.choice((0.0, 0.0, 0.1, 1.0))
        for one, another in injection.rng.choice((((host, other),), ((other, host),), ((host, other), (other, host)))):
            link = simulation.network.links.link(one.name, another.name)
            if late:
                link.latency = late * injection.rng.random()
            else:
                link.is_blocked = True
            seconds = CUT_SECONDS_MAX * injection.rng.random()
            simulation.clock.after(seconds, simulation.network.mend, one.name, another.name)
