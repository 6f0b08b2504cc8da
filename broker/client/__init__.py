"""Kafka's protocol from the client's side."""

from broker.client.connection import Connection, ConnectionLost
from broker.client.payloads import decode_response, encode_request

__all__ = ["Connection", "ConnectionLost", "decode_response", "encode_request"]
