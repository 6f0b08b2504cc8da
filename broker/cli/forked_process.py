"""Forks processes from a command that has one thread and no event loop, and starts others once it has a loop.

A fork has all modules that the command has imported, in memory that both share until one of them changes it. A process
that is started later imports them itself, from the files that are installed then.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial

import attrs

from broker.cli.command_line import replace_command_line
from broker.cli.errors import INTERRUPTED

_FAILED = 1
_STANDARD_STREAMS = 3


@attrs.frozen
class ChildCommand:
    """A `kraft` command in a process of its own. `stdin` and `output` are this process's ends of its pipes."""

    process_id: int
    stdin: int
    output: int


def fork(run: Callable[[], int]) -> int:
    """Fork a process that ends with the result of `run`. Returns its id. Raises OSError."""
    # The kernel discards the exit codes of forks if the parent of this process ignores the ends of its children.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    sys.stdout.flush()
    sys.stderr.flush()
    process_id = os.fork()
    if process_id:
        return process_id
    code = _FAILED
    try:
        code = run()
        sys.stdout.flush()
        sys.stderr.flush()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BaseException:  # noqa: BLE001 - nothing may return into the parent's code
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def fork_command(arguments: Sequence[str], main: Callable[[Sequence[str]], int]) -> ChildCommand:
    """Run `kraft <arguments>` in a fork, by `main`. Its standard input and its output are pipes. Raises OSError.

    Its standard input ends with this process, whatever ends it. The fork has a process group of its own, so that the
    terminal's Ctrl-C is for this process only.
    """
    child = _with_pipes(lambda stdin, output: fork(partial(_run_command, arguments, main, stdin, output)))
    with contextlib.suppress(OSError):  # the fork has done it, or has ended
        os.setpgid(child.process_id, child.process_id)
    return child


def spawn_command(arguments: Sequence[str]) -> ChildCommand:
    """As `fork_command`, for a process that has threads or an event loop: the command has a new interpreter."""
    command = _command_line(arguments)

    def spawn(stdin: int, output: int) -> int:
        # All other descriptors of this process are closed: Python's own are not inherited.
        streams = [(os.POSIX_SPAWN_DUP2, source, target) for source, target in ((stdin, 0), (output, 1), (output, 2))]
        return os.posix_spawn(command[0], command, os.environ, file_actions=streams, setpgroup=0)

    return _with_pipes(spawn)


def _with_pipes(start: Callable[[int, int], int]) -> ChildCommand:
    """Start a process with the ends of two pipes: the one that it reads, and the one that it writes to."""
    with contextlib.ExitStack() as on_failure:
        ends = [*os.pipe(), *os.pipe()]
        for end in ends:
            on_failure.callback(os.close, end)
        stdin, our_stdin, our_output, output = ends
        process_id = start(stdin, output)
        on_failure.pop_all()
    os.close(stdin)
    os.close(output)
    return ChildCommand(process_id, our_stdin, our_output)


def _command_line(arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "broker.cli", *arguments]


def _run_command(arguments: Sequence[str], main: Callable[[Sequence[str]], int], stdin: int, output: int) -> int:
    """Run the command, in the fork. `ps` shows the command line that starts it by hand.

    A system that cannot change the command line of a process executes the command instead, which imports all again.
    """
    os.setpgid(0, 0)
    for source, target in ((stdin, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    # Among them are this process's ends of other forks' pipes, which would keep the pipes open.
    os.closerange(_STANDARD_STREAMS, os.sysconf("SC_OPEN_MAX"))
    command = _command_line(arguments)
    if not replace_command_line(command):
        os.execv(sys.executable, command)
    return main(arguments)


def wait_for(process_id: int) -> int:
    """Wait for the end of a fork. Returns its exit code; the negative number of the signal that killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(process_id, 0)[1])


def exit_code_if_ended(process_id: int) -> int | None:
    """As `wait_for`, without waiting: None while the fork runs."""
    ended, status = os.waitpid(process_id, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None
