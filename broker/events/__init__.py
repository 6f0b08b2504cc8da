"""The events that nodes report, joined from the catalogues of all packages.

`kraft.events` and `metadata.events` have their own packages' events; the modules here have those of the broker's
packages. Nothing that emits an event imports this package.
"""

from broker.events.catalogue import ALL_CATALOGUES, EVENT_KINDS

__all__ = ["ALL_CATALOGUES", "EVENT_KINDS"]
