"""Which values a config accepts, as one row per config: found by questions, of which each is answered with yes or no.

`tests.support.make_kafka_facts` asks Apache Kafka, its own jars and a broker of it, and writes
`tests/kafka_facts/config_values.csv`. `tests/metadata/configuration/test_config_values.py` asks this project, and
compares.
"""

import base64
import csv
import json
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import attrs

from benchmarks import apache_kafka
from broker.wire.api import APIS
from broker.wire.api.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from broker.wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from broker.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from broker.wire.codec import decode, encode
from broker.wire.header import encode_request_header, parse_response_header, response_header_version
from metadata.protocol import ConfigResourceType
from tests.support import kafka_facts

# Whether a config accepts a text.
Accepts: TypeAlias = Callable[[str], bool]

FILE: Final = kafka_facts.DIRECTORY / "config_values.csv"
TOPIC: Final = "t"
LISTENER_PREFIX: Final = "listener.name.plaintext."

_BITS: Final = {"SHORT": 16, "INT": 32, "LONG": 64}
_NUMBERS: Final = sorted(
    {0, 1, 2, 3, 4, 5, *(10**power for power in range(1, 19)), *(2**power for power in range(10, 64, 10))}
)
_DOUBLES: Final = (
    "-Infinity -1 -0.5 -0.0 0 .5 0.5 0.5f 0.5d 1 1. 1.0000001 1.5 2 1e3 1e308 1e309 Infinity NaN nan inf 0x1p3 1_0"
)
_BOOLEANS: Final = ("true", "TRUE", "True", " true ", "false", "yes", "1", "tru")
_LISTS: Final = (",", "x,", "x,,y", "x,x", " x , y ", "*", "*,*", "0:1", "0:1,1:2", "0", "0:x", "-1:1", "localhost:9")
# Words that some config of Kafka accepts. They are tried where any other word is refused.
_WORDS: Final = (
    "compact delete none CreateTime LogAppendTime producer uncompressed gzip snappy lz4 zstd classic consumer "
    "share streams broker controller PLAINTEXT SSL SASL_PLAINTEXT SASL_SSL required requested disabled "
    "downgrade upgrade bidirectional ES256 RS256 RS384 uniform range simple INFO DEBUG TRACE earliest latest "
    "by_duration:PT1H read_committed read_uncommitted availability balance client_id=x client_id= x=y "
    "client_id=( client_id=x,client_id=x metadata leader localhost:5 127.0.0.1:0 127.0.0.1:-1 "
    "127.0.0.1:99999999999 127.0.0.1:1,::1:2 host.invalid:1 /tmp/kafka-logs"
)
QUOTA_ENTITIES: Final = {
    "user": {"user": "u"},
    "client-id": {"client-id": None},
    "user, client-id": {"user": "u", "client-id": "c"},
    "ip": {"ip": "127.0.0.1"},
    "ip default": {"ip": None},
}
QUOTA_KEYS: Final = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)
_QUOTAS: Final = (
    "-Infinity -1.0 -0.0 0.0 1e-09 0.5 1.0 1.0000001 1.5 2147483647.0 2147483648.0 9007199254740993.0 "
    "9.223372036854775e+18 9.223372036854775807e+18 1.9e+19 1e+300 Infinity NaN"
)


@attrs.frozen
class Row:
    """The values that a config accepts: `numbers` as ranges, as in `-1..-1 1..2147483647`, and single texts.

    `refused` leaves out the words of _WORDS.
    """

    scope: str
    name: str
    numbers: str
    accepted: tuple[str, ...]
    refused: tuple[str, ...]

    def cells(self) -> list[str]:
        return [self.scope, self.name, self.numbers, *(json.dumps(texts) for texts in (self.accepted, self.refused))]


def read_rows() -> list[Row]:
    with FILE.open(newline="") as file:
        return [
            Row(row["scope"], row["name"], row["numbers"], *(tuple(json.loads(row[each])) for each in _TEXTS))
            for row in csv.DictReader(file)
        ]


_TEXTS: Final = ("accepted", "refused")


def configs() -> Iterator[tuple[str, str, dict[str, str]]]:
    """Every config that is asked about, as scope, name and its facts."""
    for row in kafka_facts.read("configs"):
        scope, name = row["scope"], row["name"]
        if scope != "broker":
            yield scope, name, row
            continue
        yield "static", name, row
        if row["update_mode"] != "read-only":
            for each in ("broker", "cluster"):
                yield each, name, row
                yield each, LISTENER_PREFIX + name, row


def find_row(scope: str, name: str, fact: dict[str, str], accepts: Accepts) -> Row:
    """Ask about one config."""
    kind, default = fact["type"], fact["default"]
    numbers = accepted_numbers(accepts, _BITS[kind]) if kind in _BITS else ""
    results = {text: accepts(text) for text in _texts(kind, "" if default in ("null", "REQUIRED") else default)}
    words = () if kind not in ("STRING", "LIST", "CLASS") or results["x"] else filter(accepts, _WORDS.split())
    accepted = dict.fromkeys((*(text for text in results if results[text]), *words))
    return Row(scope, name, numbers, tuple(accepted), tuple(text for text in results if not results[text]))


def accepted_numbers(accepts: Accepts, bits: int) -> str:
    """The accepted integers as ranges. Their ends are exact, as long as no range fits between two of _NUMBERS."""
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    grid = sorted({low - 1, low, high, high + 1, *(sign * n for n in _NUMBERS for sign in (1, -1) if low < n < high)})
    ranges: list[list[int]] = []
    before, was_accepted = grid[0], accepts(str(grid[0]))
    assert not was_accepted, "numbers that are too large for the type are refused"
    for number in grid[1:]:
        is_accepted = accepts(str(number))
        if is_accepted != was_accepted:
            last, first = _change(accepts, before, number, was_accepted)
            if is_accepted:
                ranges.append([first])
            else:
                ranges[-1].append(last)
        before, was_accepted = number, is_accepted
    return " ".join(f"{first}..{last}" for first, last in ranges)


def _change(accepts: Accepts, low: int, high: int, is_accepted: bool) -> tuple[int, int]:
    """Two neighbours between which the answer changes; it is `is_accepted` for `low`."""
    while high - low > 1:
        middle = (low + high) // 2
        if accepts(str(middle)) == is_accepted:
            low = middle
        else:
            high = middle
    return low, high


def _texts(kind: str, default: str) -> list[str]:
    texts = ["", " ", "x"]
    if default:
        texts += [default, f" {default} ", default.upper(), default.lower()]
    match kind:
        case "BOOLEAN":
            texts += _BOOLEANS
        case "SHORT" | "INT" | "LONG":
            number = default or "7"
            texts += [f"+{number}", f"0{number}", f"{number}.0", f"{number}L", f"\t{number}\n", f"\u00a0{number}"]
            texts += ["1e3", "0x10", "1_0", "\u0663", "-", "1 0", "1,0"]
        case "DOUBLE":
            texts += _DOUBLES.split()
        case "LIST":
            texts += [*_LISTS, f"{default},{default}"]
    return list(dict.fromkeys(texts))


def quota_rows(accepts: Callable[[dict[str, str | None], str, float], bool]) -> Iterator[Row]:
    """The values of each quota, by kind of entity."""
    for scope, entity in QUOTA_ENTITIES.items():
        for key in QUOTA_KEYS:
            results = {text: accepts(entity, key, float(text)) for text in _QUOTAS.split()}
            accepted = tuple(text for text in results if results[text])
            yield Row(f"quota of {scope}", key, "", accepted, tuple(text for text in results if not results[text]))


class WireQuestions:
    """Asks a broker, by requests that only validate. Its topic TOPIC is made first."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._file = self._socket.makefile("rb")
        self.call(CreateTopicsRequest(topics=[CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)]), 5)

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def accepts(self, scope: str, name: str, text: str) -> bool:
        resource, resource_name = {
            "broker": (ConfigResourceType.BROKER, "1"),
            "cluster": (ConfigResourceType.BROKER, ""),
            "topic": (ConfigResourceType.TOPIC, TOPIC),
            "group": (ConfigResourceType.GROUP, "g"),
            "client-metrics": (ConfigResourceType.CLIENT_METRICS, "m"),
        }[scope]
        change = AlterConfigsResource(
            resource_type=resource, resource_name=resource_name, configs=[AlterableConfig(name=name, value=text)]
        )
        [outcome] = self.call(IncrementalAlterConfigsRequest(resources=[change], validate_only=True), 1).responses
        return bool(outcome.error_code == 0)

    def accepts_quota(self, entity: dict[str, str | None], key: str, value: float) -> bool:
        names = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
        entry = EntryData(entity=names, ops=[OpData(key=key, value=value)])
        [outcome] = self.call(AlterClientQuotasRequest(entries=[entry], validate_only=True), 1).entries
        return bool(outcome.error_code == 0)

    def call(self, request: Any, version: int) -> Any:
        key = type(request).__message__.key
        body = b"".join(map(bytes, encode(request, version)))
        payload = encode_request_header(key, version, 1, "config-values") + body
        self._socket.sendall(len(payload).to_bytes(4) + payload)
        reply = self._file.read(int.from_bytes(self._file.read(4)))
        _, position = parse_response_header(reply, response_header_version(key, version) == 1)
        response, _ = decode(APIS[key].response, version, reply, position)
        return response


@contextmanager
def _kafka_static() -> Iterator[Callable[[str, str], bool]]:
    """Whether a node of Apache Kafka starts with a config and a value, as its own classes decide."""
    program = str(kafka_facts.DIRECTORY / "KafkaFacts.java")
    with subprocess.Popen(
        [*apache_kafka.java(program), "accepts"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        bufsize=1,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        questions, answers = process.stdin, process.stdout

        def accepts(name: str, text: str) -> bool:
            questions.write(f"{name} {base64.b64encode(text.encode()).decode()}\n")
            return answers.readline() == "1\n"

        yield accepts


def kafka_rows() -> list[Row]:
    """Ask Apache Kafka about every config. Takes some minutes."""
    rows = []
    with apache_kafka.ApacheKafka() as kafka, _kafka_static() as static:
        broker = WireQuestions(kafka.port)
        for scope, name, fact in configs():
            if scope == "static":
                rows.append(find_row(scope, name, fact, lambda text: static(name, text)))  # noqa: B023 - called at once
            else:
                rows.append(find_row(scope, name, fact, lambda text: broker.accepts(scope, name, text)))  # noqa: B023
        rows += quota_rows(broker.accepts_quota)
        broker.close()
    return rows


def lines(rows: list[Row]) -> list[list[str]]:
    return [["scope", "name", "numbers", *_TEXTS], *(row.cells() for row in rows)]
