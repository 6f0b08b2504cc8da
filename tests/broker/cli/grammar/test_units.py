"""Sizes, durations and times as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cli.grammar.units import (
    format_count,
    format_duration_ms,
    format_number,
    format_size,
    format_time_ms,
    parse_duration_ms,
    parse_number,
    parse_size,
    parse_time_ms,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1048576", 1 << 20),
        ("1MiB", 1 << 20),
        ("1m", 1 << 20),
        ("1 MB", 1_000_000),
        ("1.5k", 1536),
        ("7b", 7),
    ],
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "x", "-1", "1kk", "1 2"])
def test_malformed_sizes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse_size(text)


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (1 << 40, "1.0 TiB"), (-1, "unknown")]
)
def test_sizes_are_shown_in_the_largest_unit(size: int, text: str) -> None:
    assert format_size(size) == text


@pytest.mark.parametrize(
    ("text", "duration_ms"), [("5", 5000), ("250ms", 250), ("1h30m", 5_400_000), ("7d", 604_800_000), ("1.5s", 1500)]
)
def test_durations_are_read(text: str, duration_ms: int) -> None:
    assert parse_duration_ms(text) == duration_ms


@pytest.mark.parametrize(("text", "number"), [("5", 5), ("-1", -1), (" 1.5 ", 1.5), ("1e6", 1e6), (".5", 0.5)])
def test_numbers_are_read(text: str, number: float) -> None:
    assert parse_number(text) == number


@pytest.mark.parametrize("text", ["", "x", "1_000", "nan", "inf", "\u0663", "1 0", "."])
def test_malformed_numbers_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a number"):
        parse_number(text)


@pytest.mark.parametrize("text", ["", "x", "-1s", "1x", "1s x", "s"])
def test_malformed_durations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration_ms(text)


@pytest.mark.parametrize(
    ("duration_ms", "text"), [(0, "0 ms"), (999, "999 ms"), (61_000, "1m 1s"), (3_600_000, "1h"), (90_061_000, "1d 1h")]
)
def test_durations_are_shown_in_two_units(duration_ms: int, text: str) -> None:
    assert format_duration_ms(duration_ms) == text


NOW_MS = 1_769_846_400_000


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("1769846400000", NOW_MS),
        ("2026-01-31T08:00", NOW_MS),
        ("2026-01-31T10:00+02:00", NOW_MS),
        ("2026-01-31", NOW_MS - 8 * 3_600_000),
        ("-2h", NOW_MS - 7_200_000),
        ("now", NOW_MS),
    ],
)
def test_times_are_read(text: str, time_ms: int) -> None:
    assert parse_time_ms(text, NOW_MS) == time_ms


@pytest.mark.parametrize("text", ["", "yesterday", "-x", "2026-13-01"])
def test_malformed_times_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a (time|duration)"):
        parse_time_ms(text, NOW_MS)


@given(st.integers(0, 4_000_000_000_000))
def test_a_time_that_is_shown_is_read_as_the_same(time_ms: int) -> None:
    assert parse_time_ms(format_time_ms(time_ms), 0) == time_ms


def test_no_time_is_a_dash_and_one_beyond_the_calendar_a_number() -> None:
    assert [format_time_ms(None), format_time_ms(-1), format_time_ms(1 << 62)] == ["-", "-", str(1 << 62)]


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.0, "0"), (7.0, "7"), (1234567.0, "1234567"), (0.125, "0.125"), (-2.0, "-2"), (1e300, "1e+300")],
)
def test_numbers_are_written_in_few_digits(number: float, text: str) -> None:
    assert format_number(number) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_written_numbers_are_read_again(number: float) -> None:
    assert parse_number(format_number(number)) == number
    assert len(format_number(number)) <= 24


def test_one_thing_is_not_told_in_the_plural() -> None:
    assert [format_count(number, "record") for number in (0, 1, 2000)] == ["0 records", "1 record", "2000 records"]
    assert format_count(2000, "record", has_separators=True) == "2,000 records"
