"""Reads files that the command line names: text, bytes, and JSON about partitions."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from broker.cli.kafka_tools.options import ToolExit
from broker.client.types import TopicPartition

_VERSION = 1


def read_file(path: str) -> str:
    """The text of a file. Raises ToolExit."""
    try:
        return Path(path).read_text()
    except (OSError, ValueError) as error:
        raise ToolExit(1, f"{path} cannot be read: {error}") from error


def read_bytes(path: str) -> bytes:
    """The content of a file. Raises ToolExit."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ToolExit(1, f"{path} cannot be read: {error}") from error


def directory_problem(path: str) -> str | None:
    """Returns the reason why this path is not a directory, or None if it is one."""
    if Path(path).is_dir():
        return None
    return f"{path} is not a directory" if Path(path).exists() else f"{path} does not exist"


def read_json(path: str) -> dict[str, Any]:
    """The object in a file. Raises ToolExit."""
    return _parse_json(read_file(path))


def _parse_json(text: str) -> dict[str, Any]:
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
