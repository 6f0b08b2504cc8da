"""`auto.offset.reset` and its durations (KIP-1106)."""

import pytest

from broker.client.config import read_config
from broker.client.consumer.config import ConsumerConfig
from broker.client.consumer.offset_reset import EARLIEST, LATEST, OffsetReset, read_offset_reset
from broker.client.errors import ConfigError

KEY = "auto.offset.reset"
DAY_MS = 86_400_000


@pytest.mark.parametrize(("text", "policy"), [("earliest", EARLIEST), ("latest", LATEST), ("none", None)])
def test_policies_have_kafkas_names(text: str, policy: OffsetReset | None) -> None:
    assert read_offset_reset(KEY, text) == policy


@pytest.mark.parametrize(
    ("duration", "expected_ms"),
    [
        ("P1D", DAY_MS),
        ("P2DT3H4M", 2 * DAY_MS + 3 * 3_600_000 + 4 * 60_000),
        ("PT20.345S", 20_345),
        ("pt15m", 900_000),
        ("PT0S", 0),
        ("PT1H-30M", 1_800_000),
        ("-PT-6H", 21_600_000),
        ("PT0.0009S", 0),
    ],
)
def test_durations_are_read_as_java_reads_them(duration: str, expected_ms: int) -> None:
    assert read_offset_reset(KEY, f"by_duration:{duration}") == OffsetReset(duration_ms=expected_ms)


@pytest.mark.parametrize(
    "text",
    ["by_duration", "by_duration:", "by_duration:P", "by_duration:PT", "by_duration:P1DT", "by_duration:1D", "newest",
     "by_duration:P1W", "by_duration:P1D ", "by_duration:P1٣D", 7, "EARLIEST"],
)  # fmt: skip
def test_other_texts_are_refused(text: object) -> None:
    with pytest.raises(ConfigError, match=r"earliest, latest, none or by_duration"):
        read_offset_reset(KEY, text)


def test_negative_durations_are_refused() -> None:
    with pytest.raises(ConfigError, match="negative"):
        read_offset_reset(KEY, "by_duration:PT-1S")


def test_a_duration_longer_than_time_itself_begins_at_zero() -> None:
    assert OffsetReset(duration_ms=2_000).timestamp_at(now_ms=1_000) == 0
    assert OffsetReset(duration_ms=200).timestamp_at(now_ms=1_000) == 800


def test_a_consumers_config_has_the_policy() -> None:
    config = read_config(ConsumerConfig, "localhost:9092", {KEY: "by_duration:PT1S"}, {})
    assert config.auto_offset_reset == OffsetReset(duration_ms=1_000)
