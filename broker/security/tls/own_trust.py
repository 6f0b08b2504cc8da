"""Whether nodes with the same settings accept each other's certificates."""

import ssl
from typing import Final

import attrs

from broker.security.tls.contexts import client_context, server_context
from broker.security.tls.settings import TlsSettings

# A handshake takes two messages of each side at most.
_TURNS: Final = 4


def trusts_itself(settings: TlsSettings) -> bool:
    """True if a client with these settings completes a handshake with a server that has them, in memory.

    Names of hosts are not compared. Raises TlsConfigError.
    """
    settings = attrs.evolve(settings, checks_host=False)
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context(settings).wrap_bio(to_client, to_server)
    server = server_context(settings).wrap_bio(to_server, to_client, server_side=True)
    for _ in range(_TURNS):
        try:
            if all([_go_on(client), _go_on(server)]):
                return True
        except ssl.SSLError:
            return False
    return False


def _go_on(side: ssl.SSLObject) -> bool:
    """True if the side has completed its handshake. Raises ssl.SSLError."""
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True
