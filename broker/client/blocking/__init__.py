"""Blocking faces of the clients, for scripts, notebooks and threads; one Trio loop per process runs them all."""

from broker.client.blocking.admin import SyncAdmin

__all__ = ["SyncAdmin"]
