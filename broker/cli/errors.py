"""Prints errors that the operator can resolve. Any other error is a bug and shows its traceback."""

from typing import Final

from broker.cli.printing import print_error

# The exit code after Ctrl-C, as shells number it.
INTERRUPTED: Final = 130


def print_errors(group: BaseExceptionGroup[Exception]) -> None:
    """Print each error of the group on a line of its own, without a traceback."""
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            print_errors(error)
        else:
            print_error(f"kraft: {error_text(error)}{_remedy(error)}")


class UnreadableFile(Exception):
    """A file that configures a node, and that the command line names, cannot be read."""


def error_text(error: BaseException) -> str:
    """The text of an error; that of a system error without its number, which `str` begins with."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"


def _remedy(error: Exception) -> str:
    """The advice for an error about a file, or about a module that is imported at its first use."""
    if isinstance(error, ImportError):
        return ". If the files of kraft were replaced or removed while it ran, start it again"
    if isinstance(error, PermissionError | IsADirectoryError | NotADirectoryError) and error.filename is not None:
        return ". The user that runs this has to own the file or directory, with rights to read and write it"
    return ""
