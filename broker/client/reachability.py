"""Which addresses a client cannot reach, and why: told once in the log, and by the errors of calls that need them.

An address may also lead to another broker than the one that the client means.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Final

import attrs
import trio

from broker.client.addresses import Address
from broker.client.config import ClientConfig
from broker.client.errors import ConnectionLost
from broker.client.types import Node

LOGGER: Final = __name__
_NO_NODE: Final = -1
_log: Final = logging.getLogger(LOGGER)


@attrs.frozen
class Trouble:
    """An address that cannot be reached since a time of Trio's clock. `text` says what it is, and why.

    `kind` is the class of the last failure. If it is not retriable, only another configuration of the client helps.
    """

    text: str
    since: float
    is_bootstrap: bool
    kind: type[ConnectionLost] = ConnectionLost

    def error(self) -> ConnectionLost:
        """The error of a call that needs the address."""
        return self.kind(self.text)

    def is_tolerated(self, tolerated_ms: float) -> bool:
        """True if the trouble has lasted less than that, and may end without a change of the client."""
        return self.kind.retriable and trio.current_time() - self.since < tolerated_ms / 1000


def trouble_with_all(failures: Iterable[Exception], before: Trouble | None) -> Trouble:
    """The trouble of a client that has tried all servers, which failed so. `before` is the trouble that it had."""
    found = list(failures)
    reasons = "; ".join(map(str, found)) or "all were tried a moment ago"
    final = [type(failure) for failure in found if isinstance(failure, ConnectionLost) and not failure.retriable]
    return Trouble(
        f"no broker can be reached: {reasons}",
        since=trio.current_time() if before is None else before.since,
        is_bootstrap=True,
        kind=final[0] if final and len(final) == len(found) else ConnectionLost,
    )


class Reachability:
    """See the module's docstring. A client has one.

    `has_reached_broker` is True once a broker was reached at an address that the cluster gives clients.
    """

    def __init__(self, client_id: str) -> None:
        self._prefix = f"client {client_id}: " if client_id else ""
        self._troubles: dict[Address, Trouble] = {}
        self._reached_bootstrap: str | None = None
        self.has_reached_broker = False

    def failed(self, node: Node, failure: ConnectionLost) -> ConnectionLost:
        """Notes that an attempt to connect has failed, which is logged the first time.

        Returns the failure with the place that cannot be reached.
        """
        text = f"{self._place(node)} cannot be reached: {failure}"
        before = self._troubles.get(address_of(node))
        if before is None:
            _log.warning("%s%s", self._prefix, text)
        since = trio.current_time() if before is None else before.since
        trouble = Trouble(text, since, is_bootstrap(node), type(failure))
        self._troubles[address_of(node)] = trouble
        return trouble.error()

    def reached(self, node: Node) -> None:
        """Notes that an attempt to connect has succeeded."""
        if self._troubles.pop(address_of(node), None) is not None:
            _log.info("%s%s is reached again", self._prefix, self._place(node))
        if is_bootstrap(node):
            self._reached_bootstrap = _shown(node)
        else:
            self.has_reached_broker = True

    def keep(self, addresses: Iterable[Address]) -> None:
        """Forgets addresses that are no longer those of any broker."""
        kept = set(addresses)
        self._troubles = {address: trouble for address, trouble in self._troubles.items() if address in kept}

    @property
    def has_troubles(self) -> bool:
        """True if an attempt to connect has failed, and none at that address has succeeded since."""
        return bool(self._troubles)

    def of(self, node: Node) -> Trouble | None:
        """The trouble with one broker."""
        return self._troubles.get(address_of(node))

    def of_brokers(self) -> Trouble | None:
        """The trouble with a broker at an address that the cluster gives clients."""
        return next((trouble for trouble in self._troubles.values() if not trouble.is_bootstrap), None)

    def _place(self, node: Node) -> str:
        if is_bootstrap(node):
            return f"bootstrap server {_shown(node)}"
        place = f"broker {node.id} at {_shown(node)}"
        if self.has_reached_broker or self._reached_bootstrap in (None, _shown(node)):
            return place
        return (
            f"{place}, the address that the cluster gives its clients (advertised.listeners) through"
            f" {self._reached_bootstrap},"
        )


def is_bootstrap(node: Node) -> bool:
    """True for an address that was configured, and whose broker is not known yet."""
    return node.id < 0


def address_of(node: Node) -> Address:
    return node.host, node.port


def _shown(node: Node) -> str:
    return f"[{node.host}]:{node.port}" if ":" in node.host else f"{node.host}:{node.port}"


@attrs.frozen
class Destination:
    """The broker that a client means by an address, which brokers since Kafka 4.4 check (KIP-1242).

    `cluster_id` returns the id of the client's cluster, None as long as it is unknown. `on_misrouted` is called when a
    broker says that it is another one.
    """

    config: ClientConfig
    cluster_id: Callable[[], str | None]
    on_misrouted: Callable[[], None]

    def expected(self, node: Node) -> tuple[str | None, int]:
        """The cluster and the node id that the broker checks; None and -1 if it is to check neither."""
        config, cluster_id = self.config, self.cluster_id()
        is_checked = config.metadata_cluster_check_enable and config.metadata_recovery_strategy == "rebootstrap"
        if not is_checked or cluster_id is None or is_bootstrap(node):
            return None, _NO_NODE
        return cluster_id, node.id
