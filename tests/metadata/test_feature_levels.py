"""The features and levels equal those of Kafka 4.4, as in `tests/kafka_facts`."""

from metadata.controller import DEFAULT_FEATURES, METADATA_VERSION, RELEASES, SUPPORTED_FEATURES, release_level
from metadata.controller.feature_levels import FEATURE_LEVELS, RECORD_CHANGES
from metadata.records import VersionRange
from tests.support import kafka_facts

# Kafka's rows, without those that no release supports yet.
ROWS = [row for row in kafka_facts.read("features") if row["production"] == "true"]
METADATA = [row for row in ROWS if row["feature"] == METADATA_VERSION]
OTHERS = [row for row in ROWS if row["feature"] != METADATA_VERSION]


def test_metadata_versions_are_kafkas() -> None:
    assert {int(row["level"]): row["release"] for row in METADATA} == RELEASES
    assert {int(row["level"]) for row in METADATA if row["changes_metadata"] == "true"} == RECORD_CHANGES


def test_other_features_and_their_dependencies_are_kafkas() -> None:
    levels = {
        (name, level, each.metadata_version, " ".join(f"{other}={least}" for other, least in each.depends_on.items()))
        for name, of_feature in FEATURE_LEVELS.items()
        for level, each in of_feature.items()
    }
    assert levels == {
        (row["feature"], int(row["level"]), int(row["bootstrap_metadata_version"]), row["depends_on"])
        for row in OTHERS
        if row["level"] != "0"
    }


def test_the_supported_ranges_are_kafkas() -> None:
    levels: dict[str, list[int]] = {}
    for row in ROWS:
        levels.setdefault(row["feature"], []).append(int(row["level"]))
    assert {name: VersionRange(min(each), max(each)) for name, each in levels.items()} == SUPPORTED_FEATURES


def test_new_clusters_start_at_kafka_4_4_with_the_served_features() -> None:
    assert DEFAULT_FEATURES == {
        "metadata.version": 33,
        "kraft.version": 1,
        "group.version": 1,
        "eligible.leader.replicas.version": 1,
        "transaction.version": 2,
        "share.version": 2,
    }


def test_releases_are_found_by_any_of_their_names() -> None:
    assert [release_level(name) for name in ("4.4", "4.4.0", "4.4-IV0", "4.3", "4.0-IV1", "4.5", "4", "")] == [
        33,
        33,
        31,
        30,
        23,
        None,
        None,
        None,
    ]
