"""One module or folder per API: check the request, call one package, build the response. Handlers keep no state."""

from broker.handlers.registry import CONTROLLER_HANDLERS, HANDLERS, TELEMETRY_HANDLERS

__all__ = ["CONTROLLER_HANDLERS", "HANDLERS", "TELEMETRY_HANDLERS"]
