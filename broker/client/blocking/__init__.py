"""Blocking variants of the clients, for scripts, notebooks and threads. One Trio loop per process runs them all."""

from broker.client.blocking.admin import SyncAdmin
from broker.client.blocking.consumer import SyncConsumer, SyncRebalanceListener
from broker.client.blocking.producer import SyncDelivery, SyncProducer
from broker.client.blocking.share_consumer import SyncShareConsumer

__all__ = ["SyncAdmin", "SyncConsumer", "SyncDelivery", "SyncProducer", "SyncRebalanceListener", "SyncShareConsumer"]
