"""Opens the sockets on which a node listens."""

from collections.abc import Sequence

import trio

from broker.config import KafkaConfig
from broker.config.endpoints import Listener
from kraft import lazy_attrs


@lazy_attrs.frozen
class BoundListener:
    """A listener of the config with its open sockets and their actual port."""

    listener: Listener
    sockets: Sequence[trio.SocketListener]
    port: int

    def __str__(self) -> str:
        return f"{self.listener.name}://{self.listener.host or '0.0.0.0'}:{self.port}"


async def bind(config: KafkaConfig) -> list[BoundListener]:
    """Open the sockets of all listeners. Raises OSError, with the address in its message, and leaves none open."""
    bound: list[BoundListener] = []
    try:
        for listener in config.endpoints.bound:
            bound.append(await bind_listener(listener, config.socket_listen_backlog_size))
    except BaseException:
        await close(bound)
        raise
    return bound


async def bind_listener(listener: Listener, backlog: int) -> BoundListener:
    """Open the sockets of a listener. Raises OSError, with the address in its message."""
    sockets = await _listen(listener, backlog)
    port = sockets[0].socket.getsockname()[1]
    if listener.port == 0:
        # Each address of the host got another free port. Clients can know only one: keep the first.
        await close([BoundListener(listener, sockets[1:], 0)])
        sockets = sockets[:1]
    return BoundListener(listener, sockets, port)


async def close(bound: Sequence[BoundListener]) -> None:
    """Close the sockets."""
    with trio.CancelScope(shield=True):
        for each in bound:
            for socket in each.sockets:
                await socket.aclose()


def reachable(listener: Listener, bound: Sequence[BoundListener]) -> tuple[str, int]:
    """The host and port of an advertised listener. The host defaults to this machine's name, the port to the bound
    one."""
    port = listener.port or next(each.port for each in bound if each.listener.name == listener.name)
    return listener.host or trio.socket.gethostname(), port


async def _listen(listener: Listener, backlog: int) -> list[trio.SocketListener]:
    # Python imports its encoding of host names for a `str`.
    host = listener.host.encode() if listener.host.isascii() else listener.host
    try:
        return await trio.open_tcp_listeners(listener.port, host=host or None, backlog=backlog)
    except OSError as error:
        where = f"{listener.host or '0.0.0.0'}:{listener.port}"
        raise OSError(error.errno, f"Socket server failed to bind to {where}: {error.strerror}") from error
