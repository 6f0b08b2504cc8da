"""Runs Kafka's tools within a test, on a node of the test."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from broker.cli.kafka_tools.tools import run_tool
from tests.support.running_node import running_node


class Tools:
    """Runs tools against a cluster; each call returns what the tool printed, and checks its exit code."""

    def __init__(self, bootstrap: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.bootstrap = bootstrap
        self._capsys = capsys

    async def run(self, name: str, *arguments: str, expected: int = 0) -> tuple[str, str]:
        """Standard output and standard error of a tool."""
        exit_code = await run_tool(name, ["--bootstrap-server", self.bootstrap, *arguments])
        output, errors = self._capsys.readouterr()
        assert exit_code == expected, output + errors
        return output, errors

    async def lines(self, name: str, *arguments: str, expected: int = 0) -> list[str]:
        """The lines of a tool's standard output."""
        return (await self.run(name, *arguments, expected=expected))[0].splitlines()


@asynccontextmanager
async def tools_of_a_node(
    directory: Path, capsys: pytest.CaptureFixture[str], **overrides: object
) -> AsyncIterator[Tools]:
    """A node with these configs, in whose names `_` stands for `.`, and the tools connected to it."""
    async with running_node(directory, **overrides) as node:
        yield Tools(f"127.0.0.1:{node.port}", capsys)
