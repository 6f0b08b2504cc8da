"""Reassignment plans: the brokers that replicas move to, computed here or read from a file in Kafka's format."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeGuard

from broker.cli.grammar.failures import CommandFailed, WrongSettings
from broker.client.admin import TopicDescription
from broker.client.types import TopicPartition

# The new replicas of each partition, the preferred leader first.
Plan: TypeAlias = dict[TopicPartition, list[int]]

_VERSION: Final = 1
_INT32_MAX: Final = 2**31 - 1


def make_plan(topics: Sequence[TopicDescription], brokers: Sequence[int], replicas: int | None) -> Plan:
    """Spread the topics over `brokers`, each partition with `replicas` replicas (None: as many as it has).

    A replica that is on one of the brokers stays there; the others go to the brokers with the fewest. Leadership goes
    to the broker that leads the fewest partitions. Partitions that would not change are left out. Raises CommandFailed.
    """
    load: Counter[int] = Counter(dict.fromkeys(brokers, 0))
    leads: Counter[int] = Counter(dict.fromkeys(brokers, 0))
    partitions = [(topic.name, each) for topic in topics for each in topic.partitions]
    for _, each in partitions:
        load.update(broker for broker in each.replicas if broker in brokers)
    plan: Plan = {}
    for name, each in partitions:
        count = len(each.replicas) if replicas is None else replicas
        if count > len(brokers):
            raise CommandFailed(f"{name}-{each.partition} needs {count} brokers; name more than {len(brokers)}")
        kept = [broker for broker in each.replicas if broker in brokers]
        load.subtract(kept[count:])
        chosen = kept[:count]
        while len(chosen) < count:
            least = min(
                (broker for broker in brokers if broker not in chosen), key=lambda broker: (load[broker], broker)
            )
            chosen.append(least)
            load[least] += 1
        leader = min(chosen, key=lambda broker: (leads[broker], chosen.index(broker)))
        leads[leader] += 1
        ordered = [leader, *(broker for broker in chosen if broker != leader)]
        if ordered != list(each.replicas):
            plan[TopicPartition(name, each.partition)] = ordered
    return plan


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
    except (OSError, ValueError, RecursionError) as error:
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
        plan[TopicPartition(topic, partition)] = replicas
    if not plan:
        raise ValueError("it has no partitions")
    return plan


def _is_id(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _INT32_MAX
