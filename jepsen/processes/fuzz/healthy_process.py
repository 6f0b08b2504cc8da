"""Runs the healthy client (`jepsen.processes.fuzz.healthy`) as a process beside the hostile connections."""

import json
import subprocess
import sys
from typing import Any

import trio

from jepsen.processes.fuzz.fuzzed_node import FuzzedNode


class HealthyProcess:
    """Starts the client. Its first record has the number `first`, which is the end of its topic."""

    def __init__(self, node: FuzzedNode, first: int = 0) -> None:
        ports = [str(port) for port in (node.port, node.sasl_port, node.tls_port)]
        module = "jepsen.processes.fuzz.healthy"
        command = [sys.executable, "-m", module, *ports, str(node.authority_path), "--first", str(first)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    async def end(self) -> dict[str, Any]:
        """Stop the client and return its measurements."""
        out, _ = await trio.to_thread.run_sync(self._process.communicate)
        return json.loads(out) if out else {"error": "it has ended without printing its measurements"}
