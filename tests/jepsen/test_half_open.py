"""Connections that never finish a handshake or a login take bounded resources, and other clients are served."""

import argparse
from collections.abc import Callable
from pathlib import Path

import trio

from jepsen.processes.fuzz.fuzzed_node import FuzzedNode
from jepsen.processes.fuzz.half_open import HalfOpenRun, summary_text
from tests.support.linux import reads_proc

MAX_PER_ADDRESS = 256


@reads_proc
async def test_half_open_connections_take_bounded_resources(tmp_path: Path, figure: Callable[[str], None]) -> None:
    """`python -m jepsen half-open` keeps thousands of them, for longer."""
    options = argparse.Namespace(connections=700, addresses=1, pause=0.5, seconds=3.0)
    with trio.fail_after(120):
        findings = await HalfOpenRun(FuzzedNode(tmp_path, {}), options).run()
    figure(summary_text(options, findings))
    assert findings.problems == []
    assert findings.opened > 0, "a busy machine opens fewer than the bound in this time"
    assert max(findings.open_files) < findings.open_files[0] + 2 * MAX_PER_ADDRESS + 100, "as many for TLS as for SASL"
