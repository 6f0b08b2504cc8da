"""Real processes and a real client: what troubles the active controller neither loses a topic nor makes one by half.

`python -m jepsen failover` does the same for longer.
"""

import argparse
from pathlib import Path

import pytest

from jepsen.processes import failover


def _options(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    failover.add_arguments(parser)
    return parser.parse_args(arguments)


@pytest.mark.clients
@pytest.mark.parametrize(
    "arguments",
    [
        ("--trouble", "kill", "--times", "3"),
        ("--trouble", "pause", "--times", "1", "--seconds", "5"),
        ("--trouble", "deafness", "--seconds", "8"),
    ],
    ids=["kill -9", "SIGSTOP", "a follower that hears nothing"],
)
async def test_what_was_acknowledged_outlives_trouble(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    assert await failover.failover(tmp_path, _options(*arguments)) == 0
