"""A node in its own process for the clients of asyncio."""

from tests.broker.client.blocking.conftest import bootstrap

__all__ = ["bootstrap"]
