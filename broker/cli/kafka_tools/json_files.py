"""The JSON files that some of the tools take: partitions with an offset, with replicas, or alone."""

import json
from collections.abc import Mapping
from typing import Any

from broker.cli.kafka_tools.files import read_file
from broker.cli.kafka_tools.options import ToolExit
from broker.client.types import TopicPartition

_VERSION = 1


def read_json(path: str) -> dict[str, Any]:
    """The object in a file. Raises ToolExit."""
    return parse_json(read_file(path))


def parse_json(text: str) -> dict[str, Any]:
    """The object in a text. Raises ToolExit, also for an unknown version of it."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ToolExit(1, "The input string is not a valid JSON") from error
    if not isinstance(document, dict):
        raise ToolExit(1, f"Expected JSON object, received {document}")
    if document.get("version", _VERSION) != _VERSION:
        raise ToolExit(1, f"Not supported version field value {document['version']}")
    return document


def entries(document: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """A list of objects in the document. Raises ToolExit."""
    if name not in document:
        raise ToolExit(1, f"Missing {name} field")
    found = document[name]
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise ToolExit(1, f"The field {name} has to be a list of objects")
    return found


def field(entry: Mapping[str, Any], name: str, kind: type) -> Any:
    """A field of an object. Raises ToolExit where it is missing or of another type."""
    if name not in entry:
        raise ToolExit(1, f"No such field exists: `{name}`")
    value = entry[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ToolExit(1, f"The field {name} has a value of the wrong type: {value}")
    return value


def partition_of(entry: Mapping[str, Any]) -> TopicPartition:
    """The partition of an entry with "topic" and "partition". Raises ToolExit."""
    return TopicPartition(field(entry, "topic", str), field(entry, "partition", int))
