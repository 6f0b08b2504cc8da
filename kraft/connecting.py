"""Opens the streams over which a node sends requests to others of the quorum.

How they are secured is injected: this package has neither TLS nor SASL.
"""

from collections.abc import Awaitable, Callable
from math import inf
from typing import Final, TypeAlias

import trio

from kraft import lazy_attrs
from kraft.frames import PeerConnectionLost

CONNECT_TIMEOUT_S: Final = 1.0


class PeerRefused(PeerConnectionLost):
    """One side refuses the other, for example because of a wrong password."""


@lazy_attrs.frozen
class PeerStream:
    """An open stream to another node, which must not be used after `ends_at`, a time of Trio's clock."""

    stream: trio.abc.Stream
    ends_at: float = inf


# Opens a stream to a host and port, ready for a Hello. Raises OSError, PeerConnectionLost, PeerRefused.
Connect: TypeAlias = Callable[[str, int], Awaitable[PeerStream]]


async def connect_by_tcp(host: str, port: int) -> PeerStream:
    """Open a stream that is neither encrypted nor authenticated. Raises OSError."""
    return PeerStream(await trio.open_tcp_stream(host, port))


async def open_stream(connect: Connect, address: str) -> PeerStream:
    """Open a stream to "host:port" within the timeout. Raises PeerConnectionLost, PeerRefused."""
    host, _, port = address.rpartition(":")
    try:
        with trio.fail_after(CONNECT_TIMEOUT_S):
            return await connect(host, int(port))
    except (OSError, ValueError, trio.TooSlowError) as error:
        raise PeerConnectionLost(str(error), was_reset=_is_refusal(error)) from error


def _is_refusal(error: Exception) -> bool:
    """True if all addresses of the destination refused the connection. Trio wraps their errors in a group."""
    cause = error.__cause__ or error.__context__
    if isinstance(cause, ExceptionGroup):
        return all(isinstance(each, ConnectionRefusedError) for each in cause.exceptions)
    return isinstance(cause, ConnectionRefusedError)
