"""One module per API: decode, check, call one room, encode. Handlers keep no state of their own."""

from broker.handlers.dispatch import ControllerDispatcher, Dispatcher
from broker.handlers.handler import Handler
from broker.handlers.registry import CONTROLLER_HANDLERS, HANDLERS
from broker.handlers.services import ControllerServices, Services

__all__ = [
    "CONTROLLER_HANDLERS",
    "HANDLERS",
    "ControllerDispatcher",
    "ControllerServices",
    "Dispatcher",
    "Handler",
    "Services",
]
