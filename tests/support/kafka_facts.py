"""Facts about Apache Kafka 4.3: its APIs, features, configs and throttle times, read from `tests/kafka_facts`; and the
decisions of the share coordinator of Kafka 4.4.

`tests/clients/test_kafka_facts.py` compares these files with Kafka's own jars, if Java and the jars are available.
"""

import csv
from pathlib import Path

import attrs

# Earlier share coordinators decide otherwise: start offsets may move back, for example.
SHARE_STATE_VERSION = "4.4.0"
DIRECTORY = Path(__file__).parents[1] / "kafka_facts"


@attrs.frozen
class ApiFact:
    """The versions that Kafka 4.3 lists in ApiVersions for one API, and its first flexible version, or None."""

    key: int
    name: str
    listener: str
    min_version: int
    max_version: int
    flexible_from: int | None


def read(kind: str) -> list[dict[str, str]]:
    """The rows of `kind`: apis, features, configs, throttle_times or share_state."""
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
