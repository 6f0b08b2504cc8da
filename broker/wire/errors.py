"""The one error of the wire."""


class WireError(ValueError):
    """Bytes from outside do not say what the protocol allows them to say."""
