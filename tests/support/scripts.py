"""Runs scripts in a separate interpreter, as a user does."""

import subprocess
import sys

from tests.support.source_code import ROOT


def run_script(script: str, *arguments: str) -> str:
    """Run a script in a separate interpreter, and return its output. It must exit with 0 and print nothing
    to stderr.
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout
