"""SASL: the mechanisms of clients and servers as exchanges of messages, without any input or output.

`broker.security.sasl.exchange` has what all mechanisms share.
"""

from broker.security.sasl.exchange import Authenticated, ClientExchange, SaslFailure, ServerExchange

__all__ = ["Authenticated", "ClientExchange", "SaslFailure", "ServerExchange"]
