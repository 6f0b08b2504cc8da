"""Prints errors that the operator can resolve. Any other error is a bug and shows its traceback."""

from broker.cli.printing import print_error


def print_errors(group: BaseExceptionGroup[Exception]) -> None:
    """Print each error of the group on a line of its own, without a traceback."""
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            print_errors(error)
        else:
            print_error(f"kraft: {error}{_remedy(error)}")


def _remedy(error: Exception) -> str:
    """The advice for a system error about a file."""
    if isinstance(error, PermissionError | IsADirectoryError | NotADirectoryError) and error.filename is not None:
        return ". The user that runs this has to own the file or directory, with rights to read and write it"
    return ""
