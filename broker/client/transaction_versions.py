"""The feature `transaction.version` of a broker, and the request versions that belong to it (KIP-890)."""

from typing import Final

from broker.client.brokers import Broker

_FEATURE: Final = "transaction.version"
_VERSION_2: Final = 2
# From this version on, EndTxn returns the epoch of the next transaction.
_END_SINCE_VERSION_2: Final = 5


def has_version_2(broker: Broker) -> bool:
    """True if transactions of the broker's cluster have producer epochs of their own."""
    return broker.features.get(_FEATURE, 0) >= _VERSION_2


def end_versions(*, is_v2: bool) -> tuple[int, int | None]:
    """The lowest and the highest version of EndTxn for a transaction; None is the highest that both sides know."""
    return (_END_SINCE_VERSION_2, None) if is_v2 else (0, _END_SINCE_VERSION_2 - 1)
