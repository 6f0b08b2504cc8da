"""The division of the test modules among the processes that compile them."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import compiled_tests
from tests.support.compiled_tests import import_share

NAMES = [f"divided_tests.test_{letter}" for letter in "abcde"]


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a directory of five modules. One fails, and one skips its tests."""
    tests = tmp_path / "divided_tests"
    tests.mkdir()
    for name in NAMES:
        (tests / f"{name.partition('.')[2]}.py").write_text("")
    (tests / "test_b.py").write_text("raise ValueError\n")
    (tests / "test_c.py").write_text("import pytest\npytest.skip('none', allow_module_level=True)\n")
    monkeypatch.setattr(compiled_tests, "ROOT", tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tests.name
    for name in [tests.name, *NAMES]:
        sys.modules.pop(name, None)


def test_processes_import_each_module_once_and_leave_those_that_fail_to_the_collection(directory: str) -> None:
    shares = [import_share([directory], number, 2) for number in range(2)]
    assert shares == [NAMES[::2], NAMES[1::2]]
    assert [name for name in NAMES if name in sys.modules] == [NAMES[0], *NAMES[3:]]


def test_arguments_name_files_and_tests(directory: str) -> None:
    arguments = [f"{directory}/test_a.py::test_order", f"{directory}/test_a.py", f"{directory}/test_d.py"]
    assert import_share(arguments, 0, 1) == [NAMES[0], NAMES[3]]
