"""Requests that the supervisor refuses, each with the status of its HTTP response."""

from typing import ClassVar


class ControlRefused(Exception):
    """The base class. The message is for the author of a test."""

    status: ClassVar = 500


class BadRequest(ControlRefused):
    """A word is missing or unknown, or a value has another type."""

    status: ClassVar = 400


class NotThere(ControlRefused):
    """No cluster, node or topic has this name."""

    status: ClassVar = 404


class ActionRefused(ControlRefused):
    """The action does not apply to the cluster's present state."""

    status: ClassVar = 409


class NotReached(ControlRefused):
    """A condition did not hold in time."""

    status: ClassVar = 504


class NodeFailed(ControlRefused):
    """A node has ended unasked. The message has the end of its output."""
