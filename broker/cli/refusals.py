"""What a command says of errors that a person can do something about. Any other error is a bug, and shows as one."""

import sys


def print_refusals(group: BaseExceptionGroup[Exception]) -> None:
    """Each error of the group on a line of its own, without where in the program it came from."""
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            print_refusals(error)
        else:
            print(f"kraft: {error}", file=sys.stderr)
