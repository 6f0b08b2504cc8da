"""Commands whose caller has closed their standard streams."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("streams", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_command_runs_with_closed_standard_streams(streams: str) -> None:
    ended = subprocess.run(
        ["sh", "-c", f'"{sys.executable}" -m broker.cli random-uuid {streams}'], capture_output=True, check=False
    )
    assert ended.returncode == 0, ended.stderr.decode()
    assert ended.stderr == b""
    assert bool(ended.stdout) == (">&-" not in streams.split())


@pytest.mark.parametrize("streams", ["<&-", "<&- 2>&-"])
def test_question_is_not_asked_without_standard_streams(streams: str) -> None:
    code = (
        "from broker.cli.main import open_standard_streams; from broker.cli.commands.maintenance import confirm;"
        "open_standard_streams(); confirm('Go on?', yes=False)"
    )
    ended = subprocess.run(["sh", "-c", f'"{sys.executable}" -c "{code}" {streams}'], capture_output=True, check=False)
    assert ended.returncode == 0, ended.stderr.decode()
