"""The controls of a node's log while the node runs (KIP-412)."""

from broker.logging.log_levels import LogLevels

__all__ = ["LogLevels"]
