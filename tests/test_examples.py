"""The examples that tests draw: the same in every run, others with `--draw`, and the runs of `make explore`."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.source_code import ROOT

DRAWING = """
import importlib
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

if "other_module" in sys.argv:
    importlib.import_module("other_module")

@settings(max_examples=20)
@given(st.lists(st.text(), max_size=3), st.integers())
def test_property(words, number):
    pass

@pytest.mark.seeds(2, first=5)
def test_seeds(seed):
    assert seed != 1001, "the seed 1001 is bad"

def test_without_examples():
    pass
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory with tests, and a module of many constants that Hypothesis would draw once it is loaded."""
    (tmp_path / "test_drawing.py").write_text(DRAWING)
    (tmp_path / "other_module.py").write_text("\n".join(f'X{n} = ("word {n}", {1000 + n})' for n in range(500)))
    return tmp_path


def run(directory: Path, *arguments: str, module: str = "pytest", hash_seed: int = 1) -> str:
    command = [sys.executable, "-m", module, *arguments, "--rootdir", str(directory), "-p", "no:cacheprovider"]
    command += ["-p", "tests.support.examples", str(directory)]
    environment = os.environ | {"PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": f"{ROOT}:{directory}"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    return done.stdout + done.stderr


def drawn(directory: Path, *arguments: str, hash_seed: int = 1) -> tuple[list[str], str]:
    """The names of the tests that a run has collected, and the digests of its examples."""
    path = directory / "digests"
    output = run(directory, "--verbose", "--example-digests", str(path), *arguments, hash_seed=hash_seed)
    return re.findall(r"test_drawing.py::(\S+) ", output), path.read_text()


def test_examples_depend_on_no_hash_seed_and_on_no_loaded_module(directory: Path) -> None:
    names, digests = drawn(directory)
    assert names == ["test_property", "test_seeds[5]", "test_seeds[6]", "test_without_examples"]
    assert re.fullmatch(r"[0-9a-f]{16} +\d+ \S*test_drawing.py::test_property\n", digests)
    (directory / "conftest.py").write_text("import other_module")
    assert drawn(directory, hash_seed=2) == (names, digests)


def test_draw_draws_the_examples_of_a_seed(directory: Path) -> None:
    names, digests = drawn(directory, "--draw", "70")
    assert names == ["test_property", "test_seeds[70]", "test_seeds[71]"]
    (directory / "conftest.py").write_text("import other_module")
    assert drawn(directory, "--draw", "70", "-k", "property", hash_seed=2) == (names[:1], digests)
    assert drawn(directory, "--draw", "71", "-k", "property")[1] != digests


def test_exploration_prints_the_command_that_repeats_a_failure(directory: Path) -> None:
    module = "tests.support.exploration"
    output = run(directory, "--seconds", "600", "--rounds", "1", "--seed", "1000", module=module)
    assert re.search(r"again: \S+ -m pytest --draw 1000 '\S*test_drawing.py::test_seeds\[1001\]'", output), output
