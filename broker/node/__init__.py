"""The composition root: the only place that knows every room, and makes a node of them."""

from broker.node.identity import NotFormatted
from broker.node.listeners import BoundListener
from broker.node.metadata_directory import MetadataDirectoryRefused
from broker.node.node import Node

__all__ = ["BoundListener", "MetadataDirectoryRefused", "Node", "NotFormatted"]
