"""Reassignment plans: as files in the format of Kafka's tool, and previews of them in sentences."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeGuard

from broker.cli.commands.replica_spread import Measure, measure, moved
from broker.cli.grammar.failures import WrongSettings
from broker.cli.grammar.units import format_count, format_size
from broker.client.types import TopicPartition

# The new replicas of each partition, the preferred leader first.
Plan: TypeAlias = dict[TopicPartition, list[int]]

_VERSION: Final = 1
_INT32_MAX: Final = 2**31 - 1


def encode_plan(plan: Mapping[TopicPartition, Sequence[int]]) -> str:
    """A plan as Kafka's tool reads and writes it."""
    partitions = [
        {"topic": partition.topic, "partition": partition.partition, "replicas": list(replicas)}
        for partition, replicas in plan.items()
    ]
    return json.dumps({"version": _VERSION, "partitions": partitions})


def read_plan(path: str) -> Plan:
    """A plan from a file. Raises WrongSettings."""
    try:
        return _decode(json.loads(Path(path).read_bytes()))
    except OSError as error:
        raise WrongSettings(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise WrongSettings(f"{path} is not a reassignment plan: {error}; `kraft reassign plan` prints one") from error


def _decode(document: Any) -> Plan:
    if not isinstance(document, dict) or document.get("version") != _VERSION:
        raise ValueError('it has no "version": 1')
    plan: Plan = {}
    partitions = document.get("partitions")
    for each in partitions if isinstance(partitions, list) else []:
        fields: dict[str, Any] = each if isinstance(each, dict) else {}
        topic, partition, replicas = fields.get("topic"), fields.get("partition"), fields.get("replicas")
        if not (isinstance(topic, str) and _is_id(partition) and isinstance(replicas, list)):
            raise ValueError("each of its partitions needs a topic, a partition and replicas")
        if not replicas or not all(map(_is_id, replicas)) or len(set(replicas)) < len(replicas):
            raise ValueError(f"the replicas of {topic}-{partition} must be distinct broker ids")
        topic.encode()  # JSON may have a lone surrogate, which no topic's name can have
        if (place := TopicPartition(topic, partition)) in plan:
            raise ValueError(f"{topic}-{partition} is there twice")
        plan[place] = replicas
    if not plan:
        raise ValueError("it has no partitions")
    return plan


def _is_id(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _INT32_MAX


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
