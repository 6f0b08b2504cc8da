"""The order of the tests in a run of several processes."""

from types import SimpleNamespace
from typing import Any

from tests.support.order_of_tests import SECONDS, SPARK, order_for_processes
from tests.support.source_code import ROOT

FILES = [name for name in SECONDS if name != SPARK]


def item(nodeid: str, *fixtures: str) -> Any:
    return SimpleNamespace(nodeid=nodeid, path=ROOT / nodeid.partition("::")[0], fixturenames=fixtures)


def test_each_part_begins_with_long_tests() -> None:
    long = [item(f"{name}::test_a") for name in FILES[:4]]
    items = [*(item(f"tests/test_short.py::test_{number}") for number in range(20)), *long]
    ordered = order_for_processes(items, 4)
    assert sorted(each.nodeid for each in ordered) == sorted(each.nodeid for each in items)
    assert [ordered[first] for first in range(0, 24, 6)] == long


def test_tests_of_a_session_of_spark_follow_each_other() -> None:
    items = [
        item(f"tests/broker/spark/test_{name}.py::test_a", *fixtures) for name in "abcd" for fixtures in ([SPARK], [])
    ]
    ordered = order_for_processes(items, 2)
    assert [each for each in items if each.fixturenames] == ordered[:4]


def test_long_tests_of_all_parts_take_about_the_same_time() -> None:
    short = [item(f"tests/test_short.py::test_{number}") for number in range(900)]
    ordered = order_for_processes([*short, *(item(f"{name}::test_a") for name in FILES)], 3)
    part = len(ordered) // 3
    seconds = [
        sum(SECONDS.get(each.nodeid.partition("::")[0], 0) for each in ordered[first : first + part])
        for first in range(0, 3 * part, part)
    ]
    assert sum(seconds) == sum(SECONDS[name] for name in FILES)
    assert max(seconds) < 1.1 * min(seconds)


def test_files_of_the_list_exist() -> None:
    assert [name for name in FILES if not (ROOT / name).exists()] == []
