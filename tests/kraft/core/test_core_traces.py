"""Golden traces: scripts and what comes of them, to be read. `pytest --rewrite-traces` writes them anew."""

from pathlib import Path

import pytest

from tests.support.raft_trace import Script

TRACES = sorted((Path(__file__).parents[2] / "traces" / "raft").glob("*.txt"))


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_what_happens_is_what_the_trace_says(path: Path, pytestconfig: pytest.Config) -> None:
    expected = path.read_text()
    trace = Script().play(expected)
    if pytestconfig.getoption("--rewrite-traces"):
        path.write_text(trace)
    else:
        assert trace == expected


def test_there_are_traces() -> None:
    assert TRACES
