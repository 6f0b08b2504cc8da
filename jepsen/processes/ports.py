"""Free ports of this machine."""

import contextlib
import socket
from random import SystemRandom
from typing import Final

# Linux gives outgoing connections ports from 32768 upwards.
PORTS: Final = range(16_384, 32_768)


def free_ports(count: int) -> list[int]:
    """Free ports, on all addresses. They stay the same over restarts, so that clients find their node again.

    The ports are below the kernel's range for outgoing connections: otherwise an outgoing connection of any process
    could take the port of a node that is down.
    """
    with contextlib.ExitStack() as held:
        ports: list[int] = []
        for port in SystemRandom().sample(PORTS, len(PORTS)):
            sock = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                sock.bind(("", port))
                ports.append(port)
            if len(ports) == count:
                return ports
    raise AssertionError(f"found no {count} free ports among {PORTS}")
