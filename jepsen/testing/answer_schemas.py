"""The answers of the control port as JSON Schema, by their names. Reports of nodes have the fields of their classes."""

from collections.abc import Mapping
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, Final, get_args, get_origin, get_type_hints

import attrs

from jepsen.testing.chaos.chaos_plan import KINDS
from jepsen.testing.faults.active_fault import Firing
from jepsen.testing.faults.request_history import ServedRequest
from jepsen.testing.faults.shapes import Subject
from jepsen.testing.faulty_disk import DiskFiring
from jepsen.testing.hosted_node import NodeState
from jepsen.testing.links.active_link import LinkFiring
from jepsen.testing.node_clock import ClockFiring
from jepsen.testing.word_types import Schema

_TEXT: Final[Schema] = {"type": "string"}
_INTEGER: Final[Schema] = {"type": "integer"}
_NUMBER: Final[Schema] = {"type": "number"}
_TRUTH: Final[Schema] = {"type": "boolean"}
_BASE64: Final[Schema] = {"type": ["string", "null"], "contentEncoding": "base64"}
_SIMPLE: Final[Mapping[type, Schema]] = {str: _TEXT, int: _INTEGER, float: _NUMBER, bool: _TRUTH}


def _object(**properties: Schema) -> dict[str, Any]:
    """An object that has all of these properties, and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _by_name(value: Schema) -> Schema:
    return {"type": "object", "additionalProperties": value}


def _list(item: Schema) -> Schema:
    return {"type": "array", "items": item}


def _schema_of(kind: Any) -> Schema:
    """The schema of a value as nodes report it: see `jepsen.testing.node_faults`."""
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if isinstance(kind, UnionType):
        [present] = [each for each in get_args(kind) if each is not NoneType]
        schema = _schema_of(present)
        return {**schema, "type": [schema["type"], "null"]}
    if get_origin(kind) is tuple:
        return _list(_schema_of(get_args(kind)[0]))
    if issubclass(kind, StrEnum):
        return {"type": "string", "enum": list(kind)}
    hints = get_type_hints(kind)
    schema = _object(
        **{each.name: _schema_of(hints[each.name]) for each in attrs.fields(kind) if not each.name.startswith("_")}
    )
    if kind is Subject:  # only the parts that it has
        schema["required"] = []
    return schema


_COUNTS: Final[Mapping[str, Schema]] = {"id": _TEXT, "fired": _INTEGER, "held": _INTEGER, "ended": _TRUTH}
_FIRINGS: Final = [_schema_of(kind) for kind in (Firing, LinkFiring, DiskFiring, ClockFiring)]
ANSWERS: Final[Mapping[str, Schema]] = {
    "Error": _object(error=_TEXT),
    "Nothing": _object(),
    "Description": {"type": "object", "required": ["openapi", "paths"], "description": "This description."},
    "Server": _object(supervisor=_INTEGER, zygote=_INTEGER, directory=_TEXT, clusters=_list(_TEXT), tasks=_INTEGER),
    "Lease": _object(lease=_TEXT),
    "Cluster": _object(
        name=_TEXT,
        bootstrap_servers=_TEXT,
        security=_TEXT,
        seed=_INTEGER,
        age=_NUMBER,
        nodes=_list(
            _object(
                id=_INTEGER,
                address=_TEXT,
                state={"type": "string", "enum": list(NodeState)},
                pid={"type": ["integer", "null"]},
                log=_TEXT,
            )
        ),
        clients=_by_name(_by_name(_TEXT)),
    ),
    "Name": _object(name=_TEXT),
    "Nodes": _object(nodes=_list(_INTEGER)),
    "Records": _object(
        records=_list(
            _object(
                partition=_INTEGER,
                offset=_INTEGER,
                timestamp=_INTEGER,
                key=_BASE64,
                value=_BASE64,
                headers=_list({"type": "array", "prefixItems": [_TEXT, _BASE64], "minItems": 2, "maxItems": 2}),
            )
        )
    ),
    "Events": _object(
        events=_list(
            _object(seconds=_NUMBER, node={"type": ["integer", "null"]}, event=_TEXT, level=_TEXT, fields=_by_name({}))
        )
    ),
    "FaultCounts": _object(**_COUNTS),
    "Fault": _object(**_COUNTS, firings=_list({"anyOf": _FIRINGS})),
    "LinkFault": _object(**_COUNTS, links=_list(_list({"type": ["integer", "string"]}))),
    "NodeFault": _object(**_COUNTS, nodes=_list(_INTEGER)),
    "FlippedBit": _object(
        node=_INTEGER, path=_TEXT, base_offset=_INTEGER, position=_INTEGER, bit={**_INTEGER, "maximum": 7}
    ),
    "Requests": _object(requests=_list(_schema_of(ServedRequest))),
    "Changed": {
        **_object(
            topic=_TEXT,
            partition=_INTEGER,
            leader=_INTEGER,
            group=_TEXT,
            transactional_id=_TEXT,
            coordinator=_INTEGER,
            epoch=_INTEGER,
            timeout_ms=_INTEGER,
            partitions=_list({"type": "array", "prefixItems": [_TEXT, _INTEGER]}),
            log_start_offset=_INTEGER,
        ),
        "required": [],
        "description": "What has changed, in the words of the event.",
    },
    "Chaos": _object(
        id=_TEXT,
        seed=_INTEGER,
        replay=_TEXT,
        plan=_list(
            {
                "type": "object",
                "properties": {"fault": {"type": "string", "enum": list(KINDS)}, "at": _NUMBER, "seconds": _NUMBER},
                "required": ["fault", "at", "seconds"],
            }
        ),
        done=_INTEGER,
        refused=_INTEGER,
        ended=_TRUTH,
    ),
    "Ended": _object(ended=_list(_TEXT)),
}
