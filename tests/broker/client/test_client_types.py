"""The client library's types, as mypy --strict sees them in programs of its users."""

from pathlib import Path

import pytest

from tests.support.source_code import ROOT
from tests.support.typed_examples import typed_modules

mypy_api = pytest.importorskip("mypy.api")

PROGRAM = ROOT / "tests/support/typed_program.py"


def test_programs_and_the_examples_of_the_tour_pass_mypy_strict(tmp_path: Path) -> None:
    """Errors that the program expects are comments in it, which mypy reports where there is no error."""
    paths = [tmp_path / "program.py"]
    paths[0].write_text(PROGRAM.read_text())
    for document in ("client", "share-groups"):
        for name, source in typed_modules(f"docs/{document}.md").items():
            paths.append(tmp_path / f"tour_{document.replace('-', '_')}_{name}.py")
            paths[-1].write_text(source)
    found, errors, status = mypy_api.run(
        [
            "--strict",
            "--config-file",
            str(ROOT / "pyproject.toml"),
            "--cache-dir",
            str(ROOT / ".mypy_cache"),
            *map(str, paths),
        ]
    )
    assert (status, errors) == (0, ""), found
