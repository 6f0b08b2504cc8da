"""The moves of a plan, and how even the brokers are before and after it, in sentences."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from broker.cli.commands.reassignment_plans import Plan
from broker.cli.commands.replica_spread import Measure, measure, moved
from broker.cli.grammar.units import format_count, format_size
from broker.client.types import TopicPartition


def preview(
    current: Mapping[TopicPartition, Sequence[int]],
    after: Plan,
    racks: Mapping[int, str | None],
    sizes: Mapping[TopicPartition, int],
) -> Iterator[str]:
    """The moves of a plan, and how even the brokers are before and after it."""
    changed = sum(after[each] != list(current[each]) for each in after)
    if not changed:
        yield "nothing has to move."
        return
    moves = list(moved(current, after))
    size = format_size(sum(sizes.get(partition, 0) for partition, _ in moves))
    partitions = f"{changed} of {format_count(len(after), 'partition')} {'changes' if changed == 1 else 'change'}"
    verb = "moves" if len(moves) == 1 else "move"
    yield f"{partitions}, {format_count(len(moves), 'replica')} {verb}, {size}."
    before, then = measure(current, racks, sizes), measure(after, racks, sizes)
    for name, of in _MEASURED.items():
        yield f"{name} per broker: {of(before)} now, {of(then)} afterwards."
    if None not in racks.values() and (before.in_few_racks or then.in_few_racks):
        yield f"partitions in fewer racks than possible: {before.in_few_racks} now, {then.in_few_racks} afterwards."
    if None in racks.values() and set(racks.values()) != {None}:
        yield "some brokers have no rack, so that racks do not count."


def _between(least: object, most: object) -> str:
    return f"{least} to {most}"


_MEASURED: Final[Mapping[str, Callable[[Measure], str]]] = {
    "replicas": lambda found: _between(*found.replicas),
    "bytes": lambda found: _between(*map(format_size, found.size_bytes)),
    "preferred leaders": lambda found: _between(*found.leaders),
}
