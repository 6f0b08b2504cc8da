"""Real processes and a real client: faults of the active controller neither lose a topic nor create a partial one.

The command does the same for longer.
"""

import subprocess
import sys

import pytest

from tests.support.linux import needs_loopback_addresses


@pytest.mark.clients
@pytest.mark.parametrize(
    "arguments",
    [
        ("--trouble", "kill", "--times", "2"),
        ("--trouble", "pause", "--times", "1", "--seconds", "5"),
        ("--trouble", "deafness", "--seconds", "5"),
    ],
    ids=["kill -9", "SIGSTOP", "a follower that hears nothing"],
)
@needs_loopback_addresses
def test_acknowledged_records_survive_failovers(arguments: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "jepsen", "failover", "--interval", "0.1", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "no topic was lost or created in part" in result.stdout
