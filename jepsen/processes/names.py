"""`python -m jepsen.processes.names name=address,... <kraft's arguments>`: kraft, with names of its own.

Every node of a cluster sees the others under the same names and at addresses of its own, behind which a proxy stands
for each directed link. The names are resolved in the process, so no root is needed; everything else is kraft's.
"""

import socket
import sys
from typing import Any

from broker.cli import main


def resolve_here(addresses: dict[str, str]) -> None:
    """Have this process find these names, before it asks the system for any other."""
    ask_system = socket.getaddrinfo

    def getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
        return ask_system(addresses.get(host, host), *args, **kwargs)

    socket.getaddrinfo = getaddrinfo


if __name__ == "__main__":
    resolve_here(dict(pair.split("=") for pair in sys.argv[1].split(",")))
    raise SystemExit(main(sys.argv[2:]))
