"""Decides whether a request may run, before anything of it but its header is decoded.

The order is: the state of the session, the API, the bound on its requests, its version. The connection has decided
before that it is neither closing nor throttled: then requests wait instead of being refused. The principal's
right to a resource is decided after it, by the handler (`Context.allows`), which knows the resources that the request
names.
"""

from collections.abc import Callable
from math import inf
from typing import Final

import trio

from broker.net.connection import ProtocolError
from broker.server.handler import SMALL_REQUEST_BYTES_MAX
from broker.server.routes import API_VERSIONS_KEY, Route, Routes
from broker.server.session import Session
from broker.wire.api.names import api_name

SASL_HANDSHAKE_KEY: Final = 17
SASL_AUTHENTICATE_KEY: Final = 36
# The APIs by which a client authenticates, and authenticates again before its session expires (KIP-152, KIP-368).
_AUTHENTICATING: Final = frozenset({SASL_HANDSHAKE_KEY, SASL_AUTHENTICATE_KEY})
# A client may ask for the versions first, as it does not know those of the APIs by which it authenticates.
_UNAUTHENTICATED: Final = _AUTHENTICATING | {API_VERSIONS_KEY}


class RequestAdmission:
    """Admits requests on one kind of listeners, to the APIs of `routes`.

    `on_expired` is called with the listener of a client that sends a request after its session.
    """

    def __init__(self, routes: Routes, on_expired: Callable[[str], None]) -> None:
        self._routes = routes
        self._on_expired = on_expired

    def admit(self, session: Session, api_key: int, version: int, size: int) -> Route | None:
        """The route of a request that may run; None for an unknown version of ApiVersions, which has its own response.

        Raises ProtocolError if the connection has to be closed, and UnservedVersion.
        """
        if session.authenticated_until != inf:
            self._check_authenticated(session, api_key)
        if size > SMALL_REQUEST_BYTES_MAX:
            self._routes.check_size(api_key, size)
        return self._routes.find(api_key, version)

    def _check_authenticated(self, session: Session, api_key: int) -> None:
        if not session.is_authenticated:
            if api_key not in _UNAUTHENTICATED:
                raise ProtocolError(f"{api_name(api_key)} before the client has authenticated")
        elif trio.current_time() >= session.authenticated_until and api_key not in _AUTHENTICATING:
            self._on_expired(session.listener)
            raise ProtocolError(f"{api_name(api_key)} after the client's authentication has expired")
