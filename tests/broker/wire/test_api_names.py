"""The names of Kafka's APIs, compared with the messages here and in another implementation."""

import importlib
import pkgutil

import kio.schema

from broker.wire.api import APIS
from broker.wire.api.names import api_name

GONE = {4: "LeaderAndIsr", 5: "StopReplica", 6: "UpdateMetadata", 7: "ControlledShutdown"}


def kio_names() -> dict[int, str]:
    """The name of every request in kio's schemas, by its API key."""
    names = {}
    for package in pkgutil.iter_modules(kio.schema.__path__):
        if package.ispkg:
            requests = importlib.import_module(f"kio.schema.{package.name}")
            for version in pkgutil.iter_modules(requests.__path__):
                try:
                    module = importlib.import_module(f"kio.schema.{package.name}.{version.name}.request")
                except ModuleNotFoundError:
                    continue  # a record or a header
                for name, message in vars(module).items():
                    if name.endswith("Request") and hasattr(message, "__api_key__"):
                        names[int(message.__api_key__)] = name.removesuffix("Request")
    return names


def test_every_api_has_the_name_that_kafka_gives_it() -> None:
    names = kio_names() | GONE
    assert [api_name(key) for key in sorted(names)] == [f"{names[key]} (API {key})" for key in sorted(names)]
    assert sorted(names) == list(range(len(names)))
    assert all(api_name(api.key).startswith(f"{api.name} ") for api in APIS.values())


def test_a_key_that_kafka_does_not_have_is_said_to_be_one() -> None:
    assert api_name(len(kio_names() | GONE)).endswith("which Kafka does not have,")
    assert api_name(-1) == "API -1, which Kafka does not have,"
