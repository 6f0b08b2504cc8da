"""Kafka's messages, one module per API, and the registry of them."""

from broker.wire.api.registry import APIS, Api

__all__ = ["APIS", "Api"]
