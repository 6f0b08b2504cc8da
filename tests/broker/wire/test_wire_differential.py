"""Every message in every version, compared with kio, another implementation of Kafka's protocol, in both directions.

Versions that kio does not have are compared with bytes of Kafka's own classes, in `tests/kafka_facts/messages.csv`.
"""

import base64
import datetime
import io
import json
import uuid
from dataclasses import fields
from importlib import import_module
from random import Random
from typing import Any

import pytest
from kio.serial import entity_reader, entity_writer

from broker.wire.api import APIS, Api
from broker.wire.codec import decode, encode
from tests.support import kafka_facts
from tests.support.kio_messages import EPOCH, MILLISECOND, random_kio_message
from tests.support.wire_messages import as_dict, is_newer_than_kio, message_versions, random_message, versions_of

MESSAGES = 10
# Kafka 4.4 has renamed this field of TxnOffsetCommit.
_RENAMED = {"generation_id": ("generation_id_or_member_epoch",)}


def known_to_kio(api: Api) -> list[tuple[int, str]]:
    return [(version, kind) for version, kind in versions_of(api) if not is_newer_than_kio(api, version)]


def kio_class(api: Api, version: int, kind: str) -> Any:
    module = import_module(f"kio.schema.{api.module}.v{version}.{kind}")
    return getattr(module, api.name + kind.capitalize())


def kio_encode(message: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


def assert_says_the_same(ours: Any, theirs: Any) -> None:
    """Compare by the names of fields, too: bytes alone would not show two swapped fields of one type."""
    for field in fields(theirs):
        name = next(
            name for name in (field.name, *_RENAMED.get(field.name, ()), f"{field.name}_ms") if hasattr(ours, name)
        )
        mine, its = getattr(ours, name), getattr(theirs, field.name)
        if isinstance(its, tuple):
            assert len(mine) == len(its), name
            for one, other in zip(mine, its, strict=True):
                if hasattr(other, "__dataclass_fields__"):
                    assert_says_the_same(one, other)
                else:
                    assert plain(one) == (bytes(16) if other is None else plain(other)), name
        elif hasattr(its, "__dataclass_fields__"):
            if mine is None:
                assert its == type(its)(), name
            else:
                assert_says_the_same(mine, its)
        elif its is None and isinstance(mine, bytes):
            assert mine == bytes(16), name
        elif its is None and mine == -1:
            assert name.endswith("_ms"), name
        else:
            assert plain(mine) == plain(its), name


def plain(value: Any) -> Any:
    match value:
        case uuid.UUID():
            return value.bytes
        case datetime.timedelta():
            return value // MILLISECOND
        case datetime.datetime():
            return (value - EPOCH) // MILLISECOND
        case memoryview():
            return bytes(value)
        case _:
            return value


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_kio_reads_our_messages_and_writes_the_same_bytes(api: Api) -> None:
    for version, kind in known_to_kio(api):
        check_our_messages(api, version, kind)


def check_our_messages(api: Api, version: int, kind: str) -> None:
    cls = getattr(api, kind)
    theirs = kio_class(api, version, kind)
    rng = Random(f"{api.name} {version} {kind}")
    for _ in range(MESSAGES):
        message = random_message(cls, version, version >= api.flexible_from, rng)
        encoded = b"".join(encode(message, version))
        other, size = entity_reader(theirs)(encoded, 0)
        assert size == len(encoded)
        assert_says_the_same(message, other)
        assert kio_encode(other) == encoded
        again, end = decode(cls, version, encoded)
        assert end == len(encoded)
        assert as_dict(again) == as_dict(message)


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_we_read_messages_of_kio_and_write_the_same_bytes(api: Api) -> None:
    for version, kind in known_to_kio(api):
        check_messages_of_kio(api, version, kind)


def check_messages_of_kio(api: Api, version: int, kind: str) -> None:
    cls = getattr(api, kind)
    theirs = kio_class(api, version, kind)
    rng = Random(f"{api.name} {version} {kind} of kio")
    for _ in range(MESSAGES):
        other = random_kio_message(theirs, rng)
        encoded = kio_encode(other)
        message, end = decode(cls, version, encoded)
        assert end == len(encoded)
        assert_says_the_same(message, other)
        assert b"".join(encode(message, version)) == encoded


def as_kafka_names_it(ours: Any, fields_of_kafka: dict[str, Any]) -> dict[str, Any]:
    """The fields of our message that Kafka's JSON has, in its spelling."""
    spelled = {spec.name.replace("_", ""): getattr(ours, spec.name) for spec in ours.__fields__}
    return {name: json_value(spelled[name.lower()], value) for name, value in fields_of_kafka.items()}


def json_value(value: Any, of_kafka: Any) -> Any:
    if isinstance(value, list):
        assert len(value) == len(of_kafka)
        return [json_value(each, other) for each, other in zip(value, of_kafka, strict=True)]
    if hasattr(value, "__fields__"):
        return as_kafka_names_it(value, of_kafka)
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode() if isinstance(value, bytes) else value


def test_messages_that_kio_does_not_have_are_kafkas() -> None:
    samples = kafka_facts.read("messages")
    for api, version, kind in message_versions():
        if is_newer_than_kio(api, version):
            name = api.name + kind.capitalize()
            of_message = [row for row in samples if (row["name"], int(row["version"])) == (name, version)]
            assert of_message, f"tests/kafka_facts/KafkaFacts.java has no {name} of version {version}"
            for sample in of_message:
                expected = json.loads(sample["fields"])
                message, _ = decode(getattr(api, kind), version, bytes.fromhex(sample["bytes"]))
                assert as_kafka_names_it(message, expected) == expected, name
                assert b"".join(map(bytes, encode(message, version))).hex() == sample["bytes"], name
