"""Facts about Apache Kafka 4.4: its APIs, errors, features, configs and throttle times, bytes of messages, and
decisions of the share coordinator.

`tests.support.make_kafka_facts` writes the files of `tests/kafka_facts` from Kafka's own jars, and
`tests/clients/test_kafka_facts.py` compares them, if Java and the jars are available.
"""

import csv
from pathlib import Path

import attrs

DIRECTORY = Path(__file__).parents[1] / "kafka_facts"


@attrs.frozen
class ApiFact:
    """The versions that Kafka 4.4 lists in ApiVersions for one API, and its first flexible version, or None."""

    key: int
    name: str
    listener: str
    min_version: int
    max_version: int
    flexible_from: int | None


def read(kind: str) -> list[dict[str, str]]:
    """The rows of `kind`: apis, configs, errors, features, messages, share_state or throttle_times."""
    with (DIRECTORY / f"{kind}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def apis(listener: str) -> dict[int, ApiFact]:
    """The APIs of a listener, "broker" or "controller", by key."""
    return {
        int(row["key"]): ApiFact(
            int(row["key"]),
            row["name"],
            row["listener"],
            int(row["min_version"]),
            int(row["max_version"]),
            int(row["flexible_from"]) if row["flexible_from"] else None,
        )
        for row in read("apis")
        if row["listener"] == listener
    }
