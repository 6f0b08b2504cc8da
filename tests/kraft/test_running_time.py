"""RunningTime leaves out the time in which the process did not run."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.running_time import OVERSLEPT_MS, RunningTime


class Clock:
    def __init__(self) -> None:
        self.s = 5.0

    def __call__(self) -> float:
        return self.s


def test_time_follows_the_clock_while_deadlines_are_kept() -> None:
    clock = Clock()
    time = RunningTime(clock)
    clock.s = 6.0
    assert time.now_ms(6_000 - OVERSLEPT_MS) == 6_000
    clock.s = 60.0
    assert time.now_ms(inf) == 60_000
    assert time.clock_at(61_000) == 61.0


def test_overslept_deadline_leaves_half_of_the_time() -> None:
    clock = Clock()
    time = RunningTime(clock)
    clock.s = 9.0
    assert time.now_ms(6_000) == 5_500
    assert time.clock_at(6_000) == 9.5
    clock.s = 9.5
    assert time.now_ms(6_000) == 6_000


def test_deadline_overslept_twice_has_passed() -> None:
    clock = Clock()
    time = RunningTime(clock)
    clock.s = 9.0
    assert time.now_ms(6_000) == 5_500
    clock.s = 11.0
    assert time.now_ms(6_000) == 7_500
    clock.s = 20.0
    assert time.now_ms(8_500) == 8_000


def test_time_does_not_go_back() -> None:
    clock = Clock()
    time = RunningTime(clock)
    clock.s = 9.0
    assert time.now_ms(4_000) == 5_000


def test_count_in_full_includes_overslept_time() -> None:
    clock = Clock()
    time = RunningTime(clock)
    clock.s = 9.0
    assert time.in_full_ms == 9_000
    assert time.count_in_full() == 9_000
    assert time.now_ms(6_000) == 9_000


@given(st.lists(st.tuples(st.floats(0, 3), st.floats(-1_000, 1_000), st.booleans()), max_size=20))
def test_time_never_goes_back_nor_faster_than_the_clock(steps: list[tuple[float, float, bool]]) -> None:
    clock = Clock()
    time = RunningTime(clock)
    latest, began = time.in_full_ms, clock.s
    for passed_s, due_in_ms, in_full in steps:
        due_ms = latest + due_in_ms
        clock.s += passed_s
        now = time.count_in_full() if in_full else time.now_ms(due_ms)
        assert latest <= now <= 5_000 + (clock.s - began) * 1000 + 1e-6
        assert time.in_full_ms == pytest.approx(now)
        latest = now
