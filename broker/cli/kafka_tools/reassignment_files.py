"""The JSON files of kafka-reassign-partitions: reassignments, and topics to move."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs

from broker.cli.kafka_tools.json_files import entries, field, partition_of, read_json
from broker.cli.kafka_tools.options import ToolExit
from broker.client.types import TopicPartition

ANY_LOG_DIR: Final = "any"

# The log directory of a partition's replica on a broker.
Directories: TypeAlias = dict[tuple[TopicPartition, int], str]


@attrs.frozen
class Reassignment:
    """The new replicas of partitions, and the log directories that some of them are to be in."""

    replicas: dict[TopicPartition, list[int]]
    directories: Directories


def read_reassignment(path: str) -> Reassignment:
    """Reads a reassignment. Raises ToolExit, also for partitions and brokers that appear twice."""
    replicas: dict[TopicPartition, list[int]] = {}
    directories: Directories = {}
    for entry in entries(read_json(path), "partitions"):
        partition = partition_of(entry)
        brokers = _list(entry, "replicas", int)
        wanted = _list(entry, "log_dirs", str) if "log_dirs" in entry else [ANY_LOG_DIR] * len(brokers)
        if len(brokers) != len(wanted):
            raise ToolExit(
                1,
                f"Size of replicas list {brokers} is different from size of log dirs list {wanted} for partition "
                f"{shown(partition)}",
            )
        if partition in replicas:
            raise ToolExit(1, f"Partition reassignment contains duplicate topic partitions: {shown(partition)}")
        if duplicates := [broker for broker in dict.fromkeys(brokers) if brokers.count(broker) > 1]:
            raise ToolExit(
                1,
                f"Partition replica lists may not contain duplicate entries: {shown(partition)} contains multiple "
                f"entries for {','.join(map(str, duplicates))}",
            )
        replicas[partition] = brokers
        for broker, directory in zip(brokers, wanted, strict=True):
            if directory != ANY_LOG_DIR:
                directories[partition, broker] = directory
    return Reassignment(replicas, directories)


def check_executable(reassignment: Reassignment) -> None:
    """Raises ToolExit if the reassignment is empty, or if a partition would lose all its replicas."""
    if not reassignment.replicas:
        raise ToolExit(1, "Partition reassignment list cannot be empty")
    if not all(reassignment.replicas.values()):
        raise ToolExit(1, "Partition replica list cannot be empty")


def read_topics(path: str) -> list[str]:
    """The topics of --topics-to-move-json-file. Raises ToolExit."""
    topics = [field(entry, "topic", str) for entry in entries(read_json(path), "topics")]
    if duplicates := [topic for topic in dict.fromkeys(topics) if topics.count(topic) > 1]:
        raise ToolExit(1, f"List of topics to reassign contains duplicate entries: [{', '.join(duplicates)}]")
    return topics


def encode_reassignment(replicas: Mapping[TopicPartition, Sequence[int]], directories: Directories) -> str:
    """Encodes a reassignment as one line, in the form that `read_reassignment` reads."""
    partitions = [
        {
            "topic": each.topic,
            "partition": each.partition,
            "replicas": list(replicas[each]),
            "log_dirs": [directories.get((each, broker), ANY_LOG_DIR) for broker in replicas[each]],
        }
        for each in sorted(replicas)
    ]
    return json.dumps({"version": 1, "partitions": partitions}, separators=(",", ":"))


def shown(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def _list(entry: Mapping[str, Any], name: str, kind: type) -> list[Any]:
    values: list[Any] = field(entry, name, list)
    if not all(isinstance(value, kind) and not isinstance(value, bool) for value in values):
        raise ToolExit(1, f"The field {name} has a value of the wrong type: {values}")
    return values
