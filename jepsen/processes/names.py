"""`python -m jepsen.processes.names name=address,... <kraft's arguments>`: kraft, with names of its own.

The nodes of a cluster use the same names for each other, but each node resolves them to other addresses: those of the
proxies of its directed links. The process resolves the names itself, so no root is needed; everything else is kraft's.
On SIGUSR1 it prints the stacks of its tasks, which show why a node hangs.
"""

import signal
import socket
import sys
from contextlib import suppress
from typing import Any

import trio

from broker.cli import main


def resolve_in_process(addresses: dict[str, str]) -> None:
    """Resolve these names in this process, and all others with the system's resolver."""
    ask_system = socket.getaddrinfo

    def getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host  # a node's listeners pass bytes
        return ask_system(addresses.get(name, name), *args, **kwargs)

    socket.getaddrinfo = getaddrinfo


def print_tasks(*_: object) -> None:
    """Print each task with its frames, from the outermost inwards; none where Trio does not run yet."""
    tasks: list[trio.lowlevel.Task] = []
    with suppress(RuntimeError):
        tasks += filter(None, [trio.lowlevel.current_root_task()])
    while tasks:
        task = tasks.pop()
        print(f"task {task.name}", file=sys.stderr)
        for frame, line in task.iter_await_frames():
            print(f"    {frame.f_code.co_filename}:{line} {frame.f_code.co_name}", file=sys.stderr)
        tasks += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    sys.stderr.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, print_tasks)
    resolve_in_process(dict(pair.split("=") for pair in sys.argv[1].split(",")))
    raise SystemExit(main(sys.argv[2:]))
