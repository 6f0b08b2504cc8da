"""The control port as OpenAPI 3.1, made of the table by which it dispatches requests.

python -m jepsen.testing.openapi > docs/testing-api.json
"""

import json
import re
from collections.abc import Mapping, Sequence
from inspect import getdoc
from textwrap import fill
from typing import Any, Final

from jepsen.testing.answer_schemas import ANSWERS
from jepsen.testing.errors import BadRequest, ControlRefused, Forbidden, NotThere, TooLarge
from jepsen.testing.route import Route
from jepsen.testing.word_types import Schema, object_schema

_OPENAPI: Final = "3.1.0"
_LINE_MAX: Final = 120
_JSON: Final = "application/json"
_SERVERS: Final = [
    {
        "url": "http://{control}",
        "variables": {"control": {"default": "127.0.0.1:8080", "description": "As the server has printed it."}},
    }
]
_NAMES: Final = {
    "cluster": "The name of a cluster, from the answer to its creation.",
    "topic": "The name of a topic, as the answer to its creation has it.",
    "fault": "The id of a fault, from the answer to its begin.",
    "chaos": "The id of a run of chaos, from the answer to its begin.",
}


def description(routes: Sequence[Route]) -> dict[str, Any]:
    """The description of the control port with these rows of its table."""
    paths: dict[str, dict[str, Any]] = {}
    schemas: dict[str, Schema] = dict(ANSWERS)
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
        if route.has_body:
            schemas[body_name(route)] = body_schema(route)
    return {
        "openapi": _OPENAPI,
        "info": {
            "title": "kraft test-server",
            "version": "1",
            "summary": "Clusters for tests, and their faults",
            "description": (
                "The control port of `kraft test-server`, on the loopback interface. `kraft test-server` prints its "
                "address as a line of JSON. Words with null count as missing. Seconds and milliseconds are those of "
                "the machine's clock."
            ),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": _SERVERS,
        "security": [],
        "tags": [{"name": tag} for tag in dict.fromkeys(map(_tag, routes))],
        "paths": paths,
        "components": {"schemas": schemas},
    }


def body_name(route: Route) -> str:
    """The name of the schema of a request's body."""
    return f"{route.operation[0].upper()}{route.operation[1:]}Request"


def body_schema(route: Route) -> Schema:
    if not route.variants:
        return object_schema(route.words, route.one_of, route.any_of)
    variants = []
    for name, variant in route.variants.items():
        schema = object_schema(variant.words, variant.one_of)
        properties = {route.chooser: {"const": name}, **schema["properties"]}
        variants.append(
            {**schema, "properties": properties, "required": [route.chooser, *schema.get("required", [])]},
        )
    return {"oneOf": variants}


def refusals(route: Route) -> list[type[ControlRefused]]:
    """The refusals that a request can meet, by status."""
    always: list[type[ControlRefused]] = [BadRequest, Forbidden, TooLarge, ControlRefused]
    named = [NotThere] if route.names or "lease" in route.words else []
    return sorted([*always, *named, *route.refusals], key=lambda refusal: int(refusal.status))


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.operation,
        "summary": route.summary,
        "tags": [_tag(route)],
    }
    if route.names:
        operation["parameters"] = [
            {"name": name, "in": "path", "required": True, "description": _NAMES[name], "schema": {"type": "string"}}
            for name in route.names
        ]
    if route.has_body:
        examples = {f"example-{number}": {"value": body} for number, body in enumerate(route.examples, 1)}
        operation["requestBody"] = {
            "required": any(word.required for word in route.words.values()) or bool(route.one_of or route.any_of),
            "content": {_JSON: {"schema": _reference(body_name(route)), "examples": examples}},
        }
    operation["responses"] = {
        "200": {"description": "Done.", "content": {_JSON: {"schema": _reference(route.answered)}}},
        **{str(refusal.status): _refused(refusal) for refusal in refusals(route)},
    }
    return operation


def _refused(refusal: type[ControlRefused]) -> Mapping[str, Any]:
    if refusal is ControlRefused:
        meaning = "A node or a task of the server has failed."
    else:
        meaning = " ".join((getdoc(refusal) or "").split())
    return {"description": meaning, "content": {_JSON: {"schema": _reference("Error")}}}


def _reference(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _tag(route: Route) -> str:
    """The resource that a path names."""
    parts = re.findall(r"/(\w+)", route.path)
    return str(parts[-1]) if parts and "." not in route.path else "server"


def text(routes: Sequence[Route]) -> str:
    """The description as `docs/testing-api.json` has it: what fits in a line is one."""
    return f"{_lines(description(routes), 0)}\n"


def _lines(value: Any, depth: int) -> str:
    line = json.dumps(value)
    if len(line) + depth + 20 <= _LINE_MAX or not isinstance(value, dict | list) or not value:
        return line
    margin = " " * (depth + 1)
    if isinstance(value, dict):
        parts = [f"{json.dumps(name)}: {_lines(each, depth + 1)}" for name, each in value.items()]
        return "{\n" + ",\n".join(margin + part for part in parts) + f"\n{' ' * depth}}}"
    if all(isinstance(each, str) for each in value):
        return (
            "[\n"
            + fill(", ".join(map(json.dumps, value)), _LINE_MAX, initial_indent=margin, subsequent_indent=margin)
            + f"\n{' ' * depth}]"
        )
    return "[\n" + ",\n".join(margin + _lines(each, depth + 1) for each in value) + f"\n{' ' * depth}]"
