"""Runs a test server: the zygote in this process, and everything else in forks of it."""

import gc
import os
import shutil
import tempfile
from functools import partial

# The forks need these modules, and get them with the memory of this process.
import broker.node.broker_role
import broker.node.controller_role  # noqa: F401
from jepsen.testing.lifeline import Lifeline
from jepsen.testing.node_main import run_node
from jepsen.testing.server_options import ServerOptions
from jepsen.testing.supervisor import run_supervisor
from jepsen.testing.zygote import Zygote


def run_server(options: ServerOptions) -> int:
    """Serve until the parent process ends or a signal arrives; without a parent, until the last lease ends.

    Returns the exit code. The directory of all clusters is removed, unless the options keep it.
    """
    gc.collect()
    gc.freeze()
    if options.keep_in is not None:
        os.makedirs(options.keep_in, exist_ok=True)
    directory = tempfile.mkdtemp(prefix="kraft-test-", dir=options.keep_in)
    try:
        lifeline = Lifeline(options.parent)
        run = partial(run_supervisor, directory=directory, options=options)
        return Zygote(lifeline, run, run_node).run()
    finally:
        if options.keep_in is None:
            shutil.rmtree(directory, ignore_errors=True)
