"""What a command says of errors that a person can do something about. Any other error is a bug, and shows as one."""

import sys


def print_refusals(group: BaseExceptionGroup[Exception]) -> None:
    """Each error of the group on a line of its own, without where in the program it came from."""
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            print_refusals(error)
        else:
            print(f"kraft: {error}{_remedy(error)}", file=sys.stderr)


def _remedy(error: Exception) -> str:
    """What to do about an error of the system that is about a file."""
    if isinstance(error, PermissionError | IsADirectoryError | NotADirectoryError) and error.filename is not None:
        return ". The user that runs this has to own the file or directory, with rights to read and write it"
    return ""
