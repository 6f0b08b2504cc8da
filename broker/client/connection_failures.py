"""Why a connection could not be made, or was lost, in words that a user can act on."""

from collections.abc import Iterable
from typing import Final

import trio

from broker.client.errors import AuthenticationFailed, ConnectionLost

_IS_PLAINTEXT: Final = "this client speaks no TLS (security.protocol)"


def connect_failure(error: Exception, timeout_ms: float) -> str:
    """Why no connection could be made, in words."""
    if isinstance(error, trio.TooSlowError):
        return f"timed out: no answer within {timeout_ms / 1000:.0f} s"
    if isinstance(error, UnicodeError):
        return "this cannot be a host name"
    if isinstance(error, trio.socket.gaierror):
        is_unknown = error.errno in (trio.socket.EAI_NONAME, trio.socket.EAI_NODATA)
        return "unknown host" if is_unknown else f"the host name cannot be resolved now: {error.strerror}"
    reasons = dict.fromkeys(_words(each) for each in _causes(error))
    return "; ".join(reasons)


def _causes(error: BaseException) -> Iterable[BaseException]:
    """The errors of the attempts at the addresses of a host name, of which Trio makes one."""
    cause = error.__cause__ or error
    return cause.exceptions if isinstance(cause, BaseExceptionGroup) else [cause]


def _words(error: BaseException) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused: no process listens there"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def lost_reason(error: Exception | None, *, may_be_tls_port: bool) -> str:
    """Why a connection was lost: by an error, or without one because the other side has closed it.

    TLS servers often end a connection of a client that does not speak TLS without a word.
    """
    reason = "closed by the other side" if error is None else f"the connection broke: {error.__cause__ or error}"
    return f"{reason}, without an answer, as TLS ports do; {_IS_PLAINTEXT}" if may_be_tls_port else reason


def foreign_answer(first_bytes: bytes) -> ConnectionLost:
    """Names the server that answers where no broker does, by the first bytes that it sends."""
    if first_bytes.startswith(b"HTTP"):
        return ConnectionLost("an HTTP server answers, not a Kafka broker")
    if first_bytes[:2] in (b"\x15\x03", b"\x16\x03"):
        return AuthenticationFailed(f"a TLS port answers; {_IS_PLAINTEXT}")
    size = int.from_bytes(first_bytes[:4])
    return ConnectionLost(f"a response of {size} bytes, as no broker sends it; it begins with {first_bytes!r}")
