"""One request to an identity provider over HTTP, and its response. All times and sizes are bounded.

h11 does the protocol and Trio the connection, so a request neither holds the event loop nor needs a thread. Redirects
are not followed: secrets go only to the address that the configuration names.
"""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

import attrs
import h11
import trio

from kraft import lazy_attrs

if TYPE_CHECKING:
    import ssl

# Tokens and sets of keys have some KiB.
RESPONSE_BYTES_MAX: Final = 1024 * 1024
_RECEIVED_AT_ONCE: Final = 16 * 1024
_DEFAULT_PORTS: Final[Mapping[str, int]] = {"http": 80, "https": 443}
_URL: Final = re.compile(r"[\x21-\x7e]+")


class EndpointFailed(Exception):
    """An identity provider did not answer, or not as expected. The message shows no secret.

    `is_permanent` is true if the same request cannot succeed later.
    """

    def __init__(self, message: str, *, is_permanent: bool = False) -> None:
        super().__init__(message)
        self.is_permanent = is_permanent


@lazy_attrs.frozen
class Endpoint:
    """A URL: `scheme` is "http", "https" or "file". `target` is the path and the query; of a file, its path."""

    scheme: str
    host: str
    port: int
    target: str

    def __str__(self) -> str:
        """The URL without its query, which may hold a secret."""
        path = self.target.partition("?")[0]
        return f"file://{path}" if self.scheme == "file" else f"{self.scheme}://{self.host}:{self.port}{path}"

    @classmethod
    def parse(cls, url: str) -> "Endpoint":
        """Raises ValueError with a reason that does not repeat the URL."""
        if not _URL.fullmatch(url):
            raise ValueError("a URL consists of printable ASCII characters without spaces")
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise ValueError("the URL is malformed") from None
        if parts.scheme == "file":
            if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
                raise ValueError("the URL of a file is file:///path")
            return cls("file", "", 0, unquote(parts.path))
        if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
            raise ValueError("the URL begins with http://, https:// or file://, and names a host")
        if parts.username is not None:
            raise ValueError("the URL holds a user name; credentials have configs of their own")
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return cls(parts.scheme, parts.hostname, port or _DEFAULT_PORTS[parts.scheme], target)


@lazy_attrs.frozen(kw_only=True)
class HttpTimeouts:
    """How long in seconds connecting, with TLS, and then the whole response may take."""

    connect_s: float = 10.0
    read_s: float = 10.0


@lazy_attrs.frozen
class HttpClient:
    """Sends requests. `make_context` makes the TLS context of a connection; None: the authorities of the system."""

    timeouts: HttpTimeouts = HttpTimeouts()
    make_context: "Callable[[], ssl.SSLContext] | None" = attrs.field(default=None, repr=False)

    async def request(
        self, endpoint: Endpoint, headers: Mapping[str, str], body: bytes | None = None
    ) -> tuple[int, bytes]:
        """The status and the body of the response to a GET, or to a POST if there is a body. Raises EndpointFailed."""
        try:
            with trio.fail_after(self.timeouts.connect_s):
                stream = await self._connect(endpoint)
            async with stream:
                with trio.fail_after(self.timeouts.read_s):
                    return await _exchange(stream, endpoint, headers, body)
        except trio.TooSlowError:
            raise EndpointFailed(f"{endpoint} does not answer in time") from None
        except (OSError, trio.BrokenResourceError, UnicodeError) as error:
            raise EndpointFailed(f"{endpoint} cannot be reached: {error.__cause__ or error}") from None
        except h11.ProtocolError:
            raise EndpointFailed(f"{endpoint} does not answer in HTTP") from None

    async def _connect(self, endpoint: Endpoint) -> trio.abc.Stream:
        stream = await trio.open_tcp_stream(endpoint.host, endpoint.port)
        if endpoint.scheme != "https":
            return stream
        context = _system_context() if self.make_context is None else self.make_context()
        secured = trio.SSLStream(stream, context, server_hostname=endpoint.host, https_compatible=True)
        try:
            await secured.do_handshake()
        except BaseException:
            await trio.aclose_forcefully(secured)
            raise
        return secured


def _system_context() -> "ssl.SSLContext":
    import ssl  # most clients and nodes have no HTTPS endpoint

    return ssl.create_default_context()


async def _exchange(
    stream: trio.abc.Stream, endpoint: Endpoint, headers: Mapping[str, str], body: bytes | None
) -> tuple[int, bytes]:
    protocol = h11.Connection(h11.CLIENT)
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    sent = {"Host": f"{host}:{endpoint.port}", "Accept": "application/json", "Connection": "close", **headers}
    if body is not None:
        sent["Content-Length"] = str(len(body))
    request = h11.Request(method="GET" if body is None else "POST", target=endpoint.target, headers=list(sent.items()))
    data = [protocol.send(request), protocol.send(h11.Data(body or b"")), protocol.send(h11.EndOfMessage())]
    await stream.send_all(b"".join(part for part in data if part))
    status = 0
    received = bytearray()
    while True:
        event = protocol.next_event()
        if event is h11.NEED_DATA:
            protocol.receive_data(bytes(await stream.receive_some(_RECEIVED_AT_ONCE)))
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            received += event.data
            if len(received) > RESPONSE_BYTES_MAX:
                raise EndpointFailed(f"{endpoint} answers with more than {RESPONSE_BYTES_MAX} bytes")
        elif isinstance(event, h11.EndOfMessage):
            return status, bytes(received)
        elif isinstance(event, h11.ConnectionClosed):
            raise EndpointFailed(f"{endpoint} has closed the connection before its response was complete")
