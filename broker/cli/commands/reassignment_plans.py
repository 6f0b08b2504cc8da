"""Reassignment plans, as files in the format of Kafka's tool."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeGuard

from broker.cli.grammar.failures import WrongSettings
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
