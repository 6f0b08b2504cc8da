"""The example in the package's docstring runs."""

import subprocess
import sys
from textwrap import dedent

import kraft
from tests.support.source_code import ROOT

LINES_MAX = 40


def test_a_toy_store_on_three_replicas_works_in_few_lines() -> None:
    assert kraft.__doc__ is not None
    example = dedent(kraft.__doc__.partition("on three replicas:\n\n")[2])
    assert example.strip().count("\n") < LINES_MAX
    ran = subprocess.run(
        [sys.executable, "-c", example], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.endswith(f"{[{'color': 'blue', 'size': '7'}] * 3}\n")
