"""Requests that the supervisor refuses, each with the status of its HTTP response."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar


class ControlRefused(Exception):
    """The base class. The message is for the author of a test."""

    status: ClassVar = 500


class BadRequest(ControlRefused):
    """A word is missing or unknown, or a value has another type."""

    status: ClassVar = 400


class Forbidden(ControlRefused):
    """A web page has sent the request, or may have."""

    status: ClassVar = 403


class NotThere(ControlRefused):
    """No cluster, node or topic has this name."""

    status: ClassVar = 404


class ActionRefused(ControlRefused):
    """The action does not apply to the cluster's present state."""

    status: ClassVar = 409


class NodeNotRunning(ActionRefused):
    """The node does not run, or has ended before it answered."""


class TooLarge(ControlRefused):
    """The body has more bytes than the server keeps."""

    status: ClassVar = 413


class NotReached(ControlRefused):
    """A condition did not hold in time."""

    status: ClassVar = 504


class NodeFailed(ControlRefused):
    """A node has ended unasked. The message has the end of its output."""


class TaskFailed(ControlRefused):
    """A task that runs after its request was answered has failed. The server's output has the traceback."""


@contextmanager
def failures_refused() -> Iterator[None]:
    """Turn each unforeseen exception into TaskFailed.

    Clusters of many tests share the process: one task that fails must not end the others.
    """
    try:
        yield
    except ControlRefused:
        raise
    except Exception as error:
        traceback.print_exc()
        raise TaskFailed(f"{type(error).__name__}: {error}") from error
