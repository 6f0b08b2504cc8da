"""The composition root: creates a node from all other packages and runs it."""

from broker.node.identity import NotFormatted
from broker.node.listeners import BoundListener
from broker.node.metadata_directory import MetadataDirectoryRefused
from broker.node.node import Node
from broker.node.node_context import Dispatchers

__all__ = ["BoundListener", "Dispatchers", "MetadataDirectoryRefused", "Node", "NotFormatted"]
