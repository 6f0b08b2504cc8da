"""The request path: from a request's bytes to its handler, and back to a response. Knows no API."""

from broker.server.dispatch import ControllerDispatcher, Dispatcher
from broker.server.handler import Handler
from broker.server.services import ControllerServices, Services

__all__ = ["ControllerDispatcher", "ControllerServices", "Dispatcher", "Handler", "Services"]
