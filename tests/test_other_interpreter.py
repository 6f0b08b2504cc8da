"""The part of the suite that other versions of Python run."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.support.other_interpreter import divide_for_other_interpreter


def item(nodeid: str, *fixtures: str) -> Any:
    return SimpleNamespace(nodeid=nodeid, path=Path(nodeid.partition("::")[0]), fixturenames=fixtures)


def test_first_parameters_of_each_test_are_kept() -> None:
    items = [item(f"tests/test_a.py::test_{name}[{value}]") for name in "ab" for value in range(4)]
    kept, others = divide_for_other_interpreter([*items, item("tests/test_a.py::test_c")])
    names = [each.nodeid.partition("::test_")[2] for each in kept]
    assert names == ["a[0]", "b[0]", "c"]
    assert len(others) == 6


def test_two_modules_take_a_session_of_spark() -> None:
    modules = ("test_load.py", "test_sink.py", "test_registration.py")
    items = [item(f"tests/broker/spark/{module}::test_a", "spark", "tmp_path") for module in modules]
    kept, others = divide_for_other_interpreter(items)
    assert [each.path.name for each in kept] == ["test_sink.py", "test_registration.py"]
    assert [each.path.name for each in others] == ["test_load.py"]


def test_jobs_of_spark_on_a_cluster_are_left_out() -> None:
    kills = item("tests/broker/spark/test_stream_kills.py::test_a", "cluster", "tmp_path")
    command = item("tests/broker/cli/test_drain.py::test_a", "cluster", "tmp_path")
    assert divide_for_other_interpreter([kills, command]) == ([command], [kills])
