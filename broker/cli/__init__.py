"""The `kraft` command."""

from broker.cli.main import main

__all__ = ["main"]
