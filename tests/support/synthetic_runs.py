"""Synthetic runs: the contents of a store after some minutes with faults, generated from a seed."""

from collections.abc import Iterator
from operator import itemgetter
from random import Random

import attrs

from jepsen.history import History, Operation, Outcome
from jepsen.store import Fault, RunPlan, Uptime
from jepsen.values import Healing, Polling, Sending

NODES = ("node-1", "node-2", "node-3")
TOPIC = "queue"


@attrs.define
class SyntheticRun:
    """Producers that send `rate` records per second each, and consumers that follow; a fault every `period` seconds.

    A partition does not respond for some time after a fault of its leader. With `loses`, a partition loses acknowledged
    records.
    """

    seconds: float = 120.0
    producers: int = 4
    partitions: int = 4
    rate: float = 100.0
    period: float = 15.0
    seed: int = 1
    loses: bool = False
    faults: list[Fault] = attrs.field(factory=list, init=False)
    uptimes: list[Uptime] = attrs.field(factory=list, init=False)
    history: History = attrs.field(init=False)
    _rng: Random = attrs.field(init=False)
    _logs: list[list[tuple[float, str]]] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.history = History(lambda: 0.0)
        self._rng = Random(self.seed)
        self._logs = [[] for _ in range(self.partitions)]
        self._break_things()
        self.history.operations = sorted(self._operations(), key=lambda each: each.invoked_at)
        self._acknowledge()

    @property
    def plan(self) -> RunPlan:
        kinds = tuple(dict.fromkeys(fault.kind for fault in self.faults))
        return RunPlan(
            workload="queue",
            nemesis=kinds,
            nodes=NODES,
            seconds=self.seconds,
            seed=self.seed,
            started_at="2026-01-02T03:04:05+00:00",
            command=f"python -m jepsen run --workload queue --nemesis {','.join(kinds)} --nodes 3 --seed {self.seed}",
            rate=self.rate * self.producers,
            parameters={"partitions": str(self.partitions), "min.insync.replicas": "2", "acks": "all"},
        )

    def _break_things(self) -> None:
        began = dict.fromkeys(NODES, 0.0)
        for number in range(1, int((self.seconds - 10) / self.period) + 1):
            at, node = number * self.period, NODES[number % len(NODES)]
            kind = ("kill", "pause", "halves", "isolate-leader")[number % 4]
            until = at + self._rng.uniform(3, 7)
            if kind == "halves":
                targets = tuple(f"{node}>{other}" for other in NODES if other != node)
                targets += tuple(f"{other}>{node}" for other in NODES if other != node)
            else:
                targets = (node,)
            self.faults.append(Fault(kind, targets, at, until, "led 2 of 4 partitions" if kind == "kill" else ""))
            if kind == "kill":
                self.uptimes.append(Uptime(node, began[node], began[node] + 0.8, at, "killed"))
                began[node] = until
        self.uptimes += [Uptime(node, start, start + 0.8, self.seconds + 5, "stopped") for node, start in began.items()]

    def _operations(self) -> Iterator[Operation]:
        for number in range(self.producers):
            yield from self._sends(f"producer-{number}")
        for log in self._logs:
            log.sort(key=itemgetter(0))
        for partition in range(self.partitions):
            yield from self._polls(partition)
        healing = Operation("run", "heal", Healing("every replica is in sync", 30.0), self.seconds)
        yield attrs.evolve(healing, outcome=Outcome.OK, completed_at=self.seconds + 1.7)

    def _sends(self, producer: str) -> Iterator[Operation]:
        time, sequence, last = 0.0, 0, [0.0] * self.partitions
        while time < self.seconds:
            partition = sequence % self.partitions
            value = f"{producer}/{TOPIC}-{partition}/{sequence}"
            operation = Operation(producer, "send", Sending(TOPIC, partition, producer, sequence, (value,)), time)
            operation.serial = sequence
            latency = self._rng.lognormvariate(1.2, 0.5) / 1000 + self._outage(partition, time)
            if latency > 3.0:
                operation = attrs.evolve(operation, result="_MSG_TIMED_OUT", completed_at=time + 3.0)
            else:
                last[partition] = arrived = max(last[partition], time + latency)
                self._logs[partition].append((arrived, value))
                operation = attrs.evolve(operation, outcome=Outcome.OK, completed_at=arrived)
            yield operation
            sequence += 1
            time += self._rng.expovariate(self.rate)

    def _outage(self, partition: int, time: float) -> float:
        """The remaining time for which a partition does not respond."""
        for fault in self.faults:
            if partition % len(NODES) == NODES.index(fault.targets[0].partition(">")[0]):
                back = fault.began_at + 0.3 + (fault.began_at * 7 % 10) / 3
                if fault.began_at <= time < back:
                    return back - time
        return 0.0

    def _polls(self, partition: int) -> Iterator[Operation]:
        log, reader = self._logs[partition], f"consumer-{partition}"
        offset, time, serial = 0, 0.1, 0
        while offset < len(log):
            end = offset
            while end < len(log) and log[end][0] < time:
                end += 1
            records = tuple((at, log[at][1]) for at in range(offset, end))
            poll = Operation(reader, "poll", Polling(TOPIC, partition, offset), time - 0.1, serial=serial)
            yield attrs.evolve(poll, outcome=Outcome.OK, completed_at=time + 0.004, result=records)
            offset, time, serial = end, time + 0.2, serial + 1
        kept = [(at, value) for at, (_, value) in enumerate(log)]
        if self.loses and partition == 0:
            del kept[len(kept) // 2 : len(kept) // 2 + 3]
        final = Operation(reader, "final-read", (TOPIC, partition), time, serial=serial)
        yield attrs.evolve(final, outcome=Outcome.OK, completed_at=time + 0.5, result=tuple(kept))

    def _acknowledge(self) -> None:
        """Set the results of sends to the offsets of their records."""
        offsets = {value: at for log in self._logs for at, (_, value) in enumerate(log)}
        for operation in self.history.of("send", outcome=Outcome.OK):
            operation.result = offsets[operation.value.values[0]]
