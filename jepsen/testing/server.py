"""Runs a test server: the zygote in this process, and everything else in forks of it."""

import gc
import os
import shutil
import socket
import tempfile
from functools import partial

# The supervisor and the nodes need these modules, and get them with the memory of this process.
import broker.cli.local_cluster  # noqa: F401
from jepsen.testing.lifeline import Lifeline
from jepsen.testing.preparation import prepare
from jepsen.testing.server_options import ServerOptions
from jepsen.testing.zygote import Zygote


def run_server(options: ServerOptions) -> int:
    """Serve until the parent process ends or a signal arrives; without a parent, until the last lease ends.

    Returns the exit code. The directory of all clusters is removed, unless the options keep it.
    """
    if options.keep_in is not None:
        os.makedirs(options.keep_in, exist_ok=True)
    directory = tempfile.mkdtemp(prefix="kraft-test-", dir=options.keep_in)
    try:
        lifeline = Lifeline(options.parent)
        run = partial(_run_supervisor, directory=directory, options=options)
        return Zygote(lifeline, run, _run_node, prepare()).run()
    finally:
        if options.keep_in is None:
            shutil.rmtree(directory, ignore_errors=True)


def _run_supervisor(zygote: socket.socket, directory: str, options: ServerOptions) -> int:
    """Import the supervisor, while the zygote imports what nodes need, and run it."""
    gc.disable()
    from jepsen.testing.supervisor import run_supervisor

    gc.freeze()
    gc.enable()
    return run_supervisor(zygote, directory, options)


def _run_node(supervisor: socket.socket) -> int:
    from jepsen.testing.node_main import run_node  # the zygote has imported it, unless this is its first moment

    return run_node(supervisor)
