"""The parser of Kafka's tools that have commands: argparse, with the errors and exit codes of argparse4j."""

from argparse import ArgumentParser
from typing import NoReturn

from broker.cli.kafka_tools.options import ToolExit, UsageFailure


class ToolParser(ArgumentParser):
    """Accepts the forms that argparse4j accepts in Kafka's tools. Raises UsageFailure, and ToolExit after the help."""

    def error(self, message: str) -> NoReturn:
        raise UsageFailure(f"{self.prog}: error: {message}", self.format_usage())

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise ToolExit(status, message or "")
