"""Cycles of dependencies between transactions."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from jepsen.checkers.checker import Anomaly
from jepsen.checkers.decisions import decided_transactions
from jepsen.checkers.records import FinalRead, TopicPartition, excerpt, final_reads, name_of
from jepsen.history import History, Operation, Outcome
from jepsen.values import transaction_of


class NoCyclesOfTransactions:
    """Committed transactions have no cycle of dependencies: each one is committed after those that it depends on. (G1c)

    A transaction depends on another one if it has read a record of it (write-read), or if both have one transactional
    id and its record comes later in a partition (write-write).

    The order of the records of two transactional ids is no dependency. Kafka does not isolate writes: a transaction may
    write to a partition first, then another transaction writes there and is committed, and the first one reads a record
    that the other one has written elsewhere.
    """

    def check(self, history: History) -> Iterator[Anomaly]:
        dependencies = _Dependencies(history)
        for component in strongly_connected(dependencies.followers):
            cycle = shortest_cycle(dependencies.followers, component)
            edges = list(zip(cycle, [*cycle[1:], cycle[0]], strict=True))
            what = ", ".join(dependencies.reason(earlier, later).what for earlier, later in edges)
            proof = tuple(dependencies.reason(earlier, later).operation for earlier, later in edges)
            yield Anomaly(type(self).__name__, f"{len(cycle)} transactions depend on each other: {what}", proof)


@attrs.frozen
class _Reason:
    """The observation that makes one transaction depend on another."""

    kind: str
    earlier: str
    later: str
    partition: TopicPartition
    offset: int
    observation: Operation

    @property
    def what(self) -> str:
        return f"{self.later} {self.kind} {self.earlier} at {self.offset} of {name_of(self.partition)}"

    @property
    def operation(self) -> Operation:
        return excerpt(self.observation, self.offset)


class _Dependencies:
    """The transactions that depend on each committed transaction, by name, and one reason for each pair."""

    def __init__(self, history: History) -> None:
        self.followers: dict[str, list[str]] = {}
        self._reasons: dict[tuple[str, str], _Reason] = {}
        finals = final_reads(history)
        written = {transaction_of(value) for final in finals.values() for value in final.values}
        ids = {
            each.value.name: each.value.transactional_id
            for each in decided_transactions(history)
            if each.is_committed or (not each.is_aborted and each.value.name in written)
        }
        for operation in history.of("poll-transaction", outcome=Outcome.OK):
            self._add_reads(operation, ids)
        for partition, final in finals.items():
            self._add_order(partition, final, ids)

    def reason(self, earlier: str, later: str) -> _Reason:
        return self._reasons[earlier, later]

    def _add_reads(self, operation: Operation, ids: Mapping[str, str]) -> None:
        poll = operation.value
        for offset, value in operation.result if poll.transaction in ids else ():
            writer = transaction_of(value)
            if writer in ids:
                partition = poll.topic, poll.partition
                self._add(_Reason("reads", writer, poll.transaction, partition, offset, operation))

    def _add_order(self, partition: TopicPartition, final: FinalRead, ids: Mapping[str, str]) -> None:
        last: dict[str, str] = {}
        for offset, value in sorted(final.records.items()):
            name = transaction_of(value)
            if name in ids:
                before = last.get(ids[name], name)
                self._add(_Reason("writes after", before, name, partition, offset, final.operation))
                last[ids[name]] = name

    def _add(self, reason: _Reason) -> None:
        pair = reason.earlier, reason.later
        if reason.earlier != reason.later and pair not in self._reasons:
            self._reasons[pair] = reason
            self.followers.setdefault(reason.earlier, []).append(reason.later)


def strongly_connected(followers: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """The strongly connected components of a graph that have more than one node, in linear time (Tarjan, 1972)."""
    found: list[list[str]] = []
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_nodes: dict[str, None] = {}
    for root in followers:
        # The path from the root, with the followers of each node that are still to be visited.
        path: list[tuple[str, Iterator[str]]] = []
        following: str | None = None if root in number else root
        while path or following is not None:
            if following is not None:
                number[following] = lowest[following] = len(number)
                open_nodes[following] = None
                path.append((following, iter(followers.get(following, ()))))
            node, rest = path[-1]
            following = None
            for follower in rest:
                if follower not in number:
                    following = follower
                    break
                if follower in open_nodes:
                    lowest[node] = min(lowest[node], number[follower])
            if following is None:
                path.pop()
                if path:
                    lowest[path[-1][0]] = min(lowest[path[-1][0]], lowest[node])
                if lowest[node] == number[node]:
                    component = _popped(open_nodes, node)
                    found += [component] if len(component) > 1 else []
    return found


def _popped(open_nodes: dict[str, None], root: str) -> list[str]:
    """Remove the nodes from the last one back to `root`."""
    component = [open_nodes.popitem()[0]]
    while component[-1] != root:
        component.append(open_nodes.popitem()[0])
    return component


def shortest_cycle(followers: Mapping[str, Sequence[str]], component: Iterable[str]) -> list[str]:
    """A shortest cycle through the first node, in alphabetical order, of a strongly connected component."""
    members = sorted(component)
    start, inside = members[0], frozenset(members)
    before: dict[str, str] = {}
    queue = deque([start])
    while start not in before:
        node = queue.popleft()
        for follower in followers.get(node, ()):
            if follower in inside and follower not in before:
                before[follower] = node
                queue.append(follower)
    cycle = [start]
    while before[cycle[-1]] != start:
        cycle.append(before[cycle[-1]])
    return [start, *reversed(cycle[1:])]
