"""One module or folder per API: decode, check, call one package, encode. Handlers keep no state of their own."""

from broker.handlers.registry import CONTROLLER_HANDLERS, HANDLERS, TELEMETRY_HANDLERS

__all__ = ["CONTROLLER_HANDLERS", "HANDLERS", "TELEMETRY_HANDLERS"]
