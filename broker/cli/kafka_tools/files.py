"""The files that the command line names."""

from pathlib import Path

from broker.cli.kafka_tools.options import ToolExit


def read_file(path: str) -> str:
    """The text of a file. Raises ToolExit."""
    try:
        return Path(path).read_text()
    except (OSError, ValueError) as error:
        raise ToolExit(1, f"{path} cannot be read: {error}") from error


def read_bytes(path: str) -> bytes:
    """The content of a file. Raises ToolExit."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ToolExit(1, f"{path} cannot be read: {error}") from error


def directory_problem(path: str) -> str | None:
    """Returns the reason why this path is not a directory, or None if it is one."""
    if Path(path).is_dir():
        return None
    return f"{path} is not a directory" if Path(path).exists() else f"{path} does not exist"
