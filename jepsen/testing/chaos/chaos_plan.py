"""Chooses the faults of a run by its seed: a pure function of the run's words and of the nodes."""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final, TypeAlias

import attrs

SECONDS_MAX: Final = 3_600.0
# A fault lasts so long, and the next one begins after such a pause.
_LASTS_S: Final = (0.5, 3.0)
_PAUSE_S: Final = (0.2, 1.0)
_HOUR_MS: Final = 3_600_000


class ChaosRefused(ValueError):
    """The words cannot mean anything; the message names the reason."""


@attrs.frozen
class ChaosSpec:
    """`faults` are the names of the kinds to choose from. The leaders of `topics` are moved, and half of the faults of
    processes are theirs.
    """

    seed: int
    seconds: float
    faults: tuple[str, ...]
    topics: tuple[str, ...] = ()

    @property
    def replay(self) -> str:
        """The line of Python that runs the same faults again. Topics are other ones then, in the same order."""
        topics = f", topics={list(self.topics)}" if self.topics else ""
        return f"cluster.chaos(seed={self.seed}, seconds={self.seconds:g}, faults={list(self.faults)}{topics})"


@attrs.frozen
class PlannedFault:
    """A fault that begins `at` seconds after the begin of the run, and lasts for `lasts_s`.

    `words` are those of an action, a fault or a change, without its verb.
    """

    kind: str
    at: float
    lasts_s: float
    words: Mapping[str, Any]


def plan_chaos(spec: ChaosSpec, nodes: Sequence[int]) -> list[PlannedFault]:
    """The faults, one after the other. All end within the time. Raises ChaosRefused."""
    _check(spec, nodes)
    rng = Random(spec.seed)
    planned = []
    at = rng.uniform(*_PAUSE_S)
    while at + _LASTS_S[0] <= spec.seconds:
        kind = rng.choice(spec.faults)
        lasts_s = min(rng.uniform(*_LASTS_S), spec.seconds - at)
        planned.append(PlannedFault(kind, round(at, 3), round(lasts_s, 3), KINDS[kind](rng, spec, nodes)))
        at += lasts_s + rng.uniform(*_PAUSE_S)
    return planned


def default_faults(nodes: int, topics: Sequence[str]) -> tuple[str, ...]:
    """The kinds that a cluster of so many nodes can have."""
    left_out = (() if topics else NEED_TOPICS) + (() if nodes > 1 else NEED_NODES)
    return tuple(kind for kind in KINDS if kind not in left_out)


def _check(spec: ChaosSpec, nodes: Sequence[int]) -> None:
    for kind in spec.faults:
        if kind not in KINDS:
            raise ChaosRefused(f"no fault is named {kind!r}; there are {', '.join(KINDS)}")
        if kind in NEED_TOPICS and not spec.topics:
            raise ChaosRefused(f"{kind} needs topics")
        if kind in NEED_NODES and len(nodes) < 2:
            raise ChaosRefused(f"{kind} needs a cluster of several nodes")
    if not spec.faults:
        raise ChaosRefused("chaos needs a fault")
    if not _LASTS_S[0] + _PAUSE_S[1] <= spec.seconds <= SECONDS_MAX:
        raise ChaosRefused(f"seconds has to be from {_LASTS_S[0] + _PAUSE_S[1]:g} to {SECONDS_MAX:g}")


_Chooser: TypeAlias = Callable[[Random, ChaosSpec, Sequence[int]], dict[str, Any]]


def _process(rng: Random, spec: ChaosSpec, nodes: Sequence[int]) -> dict[str, Any]:
    """A node by its id, or by a role."""
    node, topic, draw = rng.choice(nodes), rng.choice(spec.topics or ("",)), rng.random()
    if topic and draw < 0.5:
        return {"leader_of": [topic, 0]}
    return {"controller": True} if draw > 0.8 else {"node": node}


def _node(rng: Random, spec: ChaosSpec, nodes: Sequence[int]) -> dict[str, Any]:
    return {"node": rng.choice(nodes)}


def _partition(rng: Random, spec: ChaosSpec, nodes: Sequence[int]) -> dict[str, Any]:
    """A minority of the nodes is apart."""
    size = rng.randint(1, max(1, (len(nodes) - 1) // 2))
    return {"groups": [sorted(rng.sample(list(nodes), size))], "cut": True}


def _one_way(rng: Random, spec: ChaosSpec, nodes: Sequence[int]) -> dict[str, Any]:
    source, target = rng.sample(list(nodes), 2)
    return {"source": source, "target": target, "cut": True}


def _latency(rng: Random) -> dict[str, Any]:
    return {"latency_ms": rng.randint(10, 200), "jitter_ms": rng.randint(0, 100), "seed": rng.randrange(1 << 16)}


# The kinds by name, each with the function that chooses its words.
KINDS: Final[Mapping[str, _Chooser]] = {
    "kill": _process,
    "pause": _process,
    "stop": _process,
    "partition": _partition,
    "one-way": _one_way,
    "black-hole": lambda rng, spec, nodes: {**_node(rng, spec, nodes), "black_hole": True},
    "slow": lambda rng, spec, nodes: {**_node(rng, spec, nodes), **_latency(rng)},
    "reset": lambda rng, spec, nodes: {**_node(rng, spec, nodes), "reset_after_bytes": rng.randint(0, 20_000)},
    "cut-clients": lambda rng, spec, nodes: {**_node(rng, spec, nodes), "client_id": "*", "cut": True},
    "slow-clients": lambda rng, spec, nodes: {**_node(rng, spec, nodes), "client_id": "*", **_latency(rng)},
    "slow-sync": lambda rng, spec, nodes: {**_node(rng, spec, nodes), "sync_delay_ms": rng.randint(20, 500)},
    "clock": lambda rng, spec, nodes: {
        **_node(rng, spec, nodes),
        "offset_ms": rng.choice((-1, 1)) * rng.randint(1_000, _HOUR_MS),
    },
    "move-leader": lambda rng, spec, nodes: {"topic": rng.choice(spec.topics)},
}
NEED_TOPICS: Final = ("move-leader",)
NEED_NODES: Final = ("partition", "one-way", "black-hole", "slow", "reset", "move-leader")
