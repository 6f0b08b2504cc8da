"""`kraft test-server`: a cluster for tests of applications in any language, and a port to inject faults.

It imports `jepsen.testing` when it runs; `kraft start` has nothing of it.
"""

import gc
import os
from collections.abc import Sequence
from typing import Final

import click

from broker.cli.grammar import Command, Exit, Invocation
from broker.cli.grammar.arguments import Integer
from broker.cli.local_cluster import NODES_DEFAULT, NODES_MAX
from broker.cli.local_security import LocalSecurity

_CONTROL_DEFAULT: Final = "127.0.0.1:0"
_PORT_MAX: Final = 65_535


@click.command("test-server", cls=Command)
@click.option(
    "--nodes",
    type=Integer(1, NODES_MAX),
    default=NODES_DEFAULT,
    metavar="N",
    help=f"Number of nodes; default: {NODES_DEFAULT}.",
)
@click.option(
    "--security",
    type=click.Choice([each.value for each in LocalSecurity]),
    default=LocalSecurity.PLAINTEXT.value,
    help=f"How clients connect; default: {LocalSecurity.PLAINTEXT}.",
)
@click.option(
    "--control",
    default=_CONTROL_DEFAULT,
    metavar="HOST:PORT",
    help=f"Where HTTP requests are served; port 0 takes a free one; default: {_CONTROL_DEFAULT}.",
)
@click.option("--override", "overrides", multiple=True, metavar="KEY=VALUE", help="A config of all nodes.")
def test_server(invocation: Invocation, nodes: int, security: str, control: str, overrides: Sequence[str]) -> None:
    """Run a cluster for tests until the parent process ends, or until SIGTERM or Ctrl-C.

    Prints one line of JSON once the cluster serves: the address of the control port, the addresses of the nodes, and
    the configurations of clients. Requests to the control port kill, pause and start nodes: see docs/testing.md. All
    data is removed at the end. Nodes do not sync their disks.
    """
    parent = os.getppid()  # the imports below take a second, in which it may end
    host, _, port = control.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > _PORT_MAX:
        raise click.BadParameter(f"{control!r} is not HOST:PORT.", param_hint="--control")
    config: dict[str, str] = {}
    for override in overrides:
        key, separator, value = override.partition("=")
        if not separator:
            raise click.BadParameter(f"{override!r} is not KEY=VALUE.", param_hint="--override")
        config[key] = value
    gc.disable()  # a quarter of the time of the imports
    from jepsen.testing.server import run_server
    from jepsen.testing.server_options import ServerOptions

    cluster = {"nodes": nodes, "security": security, "config": config}
    failed = run_server(ServerOptions(host, int(port), cluster, parent))
    invocation.exit_code = Exit.FAILED if failed else Exit.OK
