"""Exit codes of `kraft`, and the one sentence that a failure prints."""

from collections.abc import Iterator
from enum import IntEnum
from typing import Final

import click

from broker.cli.errors import UnreadableFile, error_text
from broker.client.errors import ClientError, ConfigError, ConnectionLost, TimedOut, WrongValue
from broker.wire.errors import ErrorCode, KafkaError


class Exit(IntEnum):
    """Exit codes, for scripts. A command that does several things ends with the code of its first failure."""

    OK = 0
    FAILED = 1  # the cluster refused the request, a part of it failed, or a check found a problem
    USAGE = 2  # wrong arguments, or a wrong configuration of the command itself; nothing was asked
    UNREACHABLE = 3  # no server can be reached, or none answered in time
    NOT_FOUND = 4  # a named topic, group, broker or the like does not exist, or is not there at present
    INTERRUPTED = 130  # Ctrl-C, as shells number it
    OUTPUT_CLOSED = 141  # the reader of the output is gone, as in `kraft consume orders | head`


class CommandFailed(Exception):
    """A command cannot do what it was asked to. The message says what to do about it."""

    def __init__(self, message: str, exit_code: Exit = Exit.FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class WrongSettings(CommandFailed):
    """A file, a variable or a context that configures the command is wrong."""

    def __init__(self, message: str) -> None:
        super().__init__(message, Exit.USAGE)


_NOT_FOUND: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.RESOURCE_NOT_FOUND,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.BROKER_ID_NOT_REGISTERED,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)
# Errors that the user can resolve. Any other error is a bug and shows its traceback.
EXPECTED: Final = (CommandFailed, UnreadableFile, click.ClickException, KafkaError, ClientError, OSError)

# Advice for errors whose own message has none.
_ADVICE: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "`kraft topics list` shows the topics that exist",
    ErrorCode.GROUP_ID_NOT_FOUND: "`kraft groups list` shows the groups that exist",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "`kraft transactions list` shows the transactional ids that exist",
    ErrorCode.BROKER_NOT_AVAILABLE: "`kraft cluster describe` shows the brokers that are",
    ErrorCode.MISMATCHED_ENDPOINT_TYPE: "--bootstrap-controller takes ports of controllers, -b those of brokers",
    ErrorCode.NON_EMPTY_GROUP: "`kraft groups describe` shows the members",
    ErrorCode.INVALID_REPLICATION_FACTOR: "`kraft cluster describe` shows how many brokers are alive",
    ErrorCode.NOT_CONTROLLER: "the controllers are electing a leader",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: (
        "its first replica is down or not in sync, and `kraft cluster health` says what to do"
    ),
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: (
        "none of its replicas may lead now, and `kraft cluster health` says what to do"
    ),
    ErrorCode.TOPIC_ALREADY_EXISTS: "use --if-not-exists where that is fine",
}


def exit_code_of(error: Exception) -> Exit:
    """The exit code for a failure that a person can do something about."""
    match error:
        case CommandFailed():
            return error.exit_code
        case click.UsageError():
            return Exit.USAGE
        case KafkaError():
            if error.code in _NOT_FOUND:
                return Exit.NOT_FOUND
            return Exit.UNREACHABLE if error.code == ErrorCode.REQUEST_TIMED_OUT else Exit.FAILED
        case TimedOut() if isinstance(error.__cause__, KafkaError):
            return exit_code_of(error.__cause__)  # a broker has answered, with this code until the end of the time
        case ConnectionLost() | TimedOut():
            return Exit.UNREACHABLE
        case ConfigError() | WrongValue() | UnreadableFile():
            return Exit.USAGE
        case _:
            return Exit.FAILED


def sentence(error: Exception) -> str:
    """The line that `kraft` prints for the failure."""
    match error:
        case click.UsageError():
            where = "" if error.ctx is None else f" See: {error.ctx.command_path} --help"
            return f"{error.format_message()}{where}"
        case click.ClickException():
            return error.format_message()
        case KafkaError() if error.code in _ADVICE:
            return f"{_text(error).removesuffix('.')}; {_ADVICE[error.code]}"
        case _:
            return _text(error)


def _text(error: Exception) -> str:
    """The message in one line, with the notes that name what it is about."""
    notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
    return (" ".join(error_text(error).split()) or type(error).__name__) + notes


def leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    """The exceptions of a group and of the groups in it."""
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from leaves(error)
        else:
            yield error
