"""The composition root: creates a node from all other packages and runs it."""

from broker.node.identity import NotFormatted
from broker.node.listeners import BoundListener
from broker.node.metadata_directory import MetadataDirectoryRefused
from broker.node.node import Node

__all__ = ["BoundListener", "MetadataDirectoryRefused", "Node", "NotFormatted"]
