"""Which APIs are served, and where."""

from typing import Final

from broker.handlers.dispatch import Dispatcher
from broker.handlers.handler import Handler
from broker.handlers.registry import CONTROLLER_HANDLERS, HANDLERS
from broker.handlers.services import Services
