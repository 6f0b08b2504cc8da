"""Resolves the names of simulated hosts."""

import socket as kernel
from collections.abc import Mapping
from typing import Any

import trio

from jepsen.simulation.hosts import HOST, Host


class SimulatedResolver(trio.abc.HostnameResolver):
    """Resolves the names of all hosts of the simulation; `localhost` is the calling host."""

    def __init__(self, hosts: Mapping[str, Host]) -> None:
        self._hosts = hosts

    async def getaddrinfo(
        self,
        host: bytes | None,
        port: bytes | str | int | None,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> list[Any]:
        await trio.lowlevel.checkpoint()
        name = "localhost" if host is None else host.decode()
        found = HOST.get() if name == "localhost" else self._hosts.get(name)
        if found is None:
            raise kernel.gaierror(kernel.EAI_NONAME, f"no simulated host is called {name}")
        return [(kernel.AF_INET, kernel.SOCK_STREAM, kernel.IPPROTO_TCP, "", (found.address, int(port or 0)))]

    async def getnameinfo(self, sockaddr: Any, flags: int) -> tuple[str, str]:
        await trio.lowlevel.checkpoint()
        return str(sockaddr[0]), str(sockaddr[1])
