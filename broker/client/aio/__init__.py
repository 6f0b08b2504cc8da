"""The clients for asyncio. One Trio loop per process, on a thread of its own, runs them all."""

from broker.client.aio.admin import AsyncioAdmin
from broker.client.aio.consumer import AsyncioConsumer, AsyncioRebalanceListener
from broker.client.aio.producer import AsyncioDelivery, AsyncioProducer
from broker.client.aio.share_consumer import AsyncioShareConsumer

__all__ = [
    "AsyncioAdmin",
    "AsyncioConsumer",
    "AsyncioDelivery",
    "AsyncioProducer",
    "AsyncioRebalanceListener",
    "AsyncioShareConsumer",
]
