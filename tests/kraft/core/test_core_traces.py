"""Golden traces: scripts with their expected traces, as readable text. `pytest --rewrite-traces` rewrites them."""

from pathlib import Path

import pytest

from tests.support.raft_trace import Script

TRACES = sorted((Path(__file__).parents[2] / "traces" / "raft").glob("*.txt"))


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_run_matches_its_golden_trace(path: Path, pytestconfig: pytest.Config) -> None:
    expected = path.read_text()
    trace = Script().play(expected)
    if pytestconfig.getoption("--rewrite-traces"):
        path.write_text(trace)
    else:
        assert trace == expected


def test_golden_traces_exist() -> None:
    assert TRACES
