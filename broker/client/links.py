"""The connections of a client: one per broker and purpose, and those to bootstrap servers whose broker is unknown."""

from collections.abc import Callable, Iterable
from typing import Final, Literal, TypeAlias

import trio

from broker.client.brokers import BrokerLink
from broker.client.metadata_cache import MetadataCache
from broker.client.types import Node

# A request that waits at the broker delays all later responses of its connection, so such requests get their own.
# JoinGroup and SyncGroup wait for other members ("rebalance"): a LeaveGroup must not wait for them.
Purpose: TypeAlias = Literal["general", "fetch", "coordinator", "rebalance"]

_IDLE_CHECK_S: Final = 30.0
_IDLE_CHECK_MIN_S: Final = 0.001


class Links:
    """See the module's docstring. `new_link` makes a link to a node."""

    def __init__(self, new_link: Callable[[Node], BrokerLink]) -> None:
        self._new_link = new_link
        self._of_brokers: dict[tuple[int, Purpose], BrokerLink] = {}
        self._of_bootstrap: list[BrokerLink] = []

    def of(self, node: Node, purpose: Purpose) -> BrokerLink:
        """The link to a broker, a new one if its address has changed."""
        link = self._of_brokers.get((node.id, purpose))
        if link is None or (link.node.host, link.node.port) != (node.host, node.port):
            if link is not None:
                link.close()
            link = self._of_brokers[node.id, purpose] = self._new_link(node)
        return link

    def connected(self) -> list[BrokerLink]:
        """The links that have a connection, but for those that carry requests that wait."""
        general = [link for (_, purpose), link in self._of_brokers.items() if purpose == "general"]
        return [link for link in [*general, *self._of_bootstrap] if link.broker is not None]

    def replace_bootstrap(self, nodes: Iterable[Node]) -> list[BrokerLink]:
        """New links to these servers, in place of the earlier ones; those that wait for responses stay."""
        in_use = [link for link in self._of_bootstrap if link.is_in_use]
        for link in self._of_bootstrap:
            if not link.is_in_use:
                link.close()
        new = [self._new_link(node) for node in nodes if all(link.node != node for link in in_use)]
        self._of_bootstrap = [*in_use, *new]
        return new

    def drop_superseded(self, metadata: MetadataCache) -> list[Node]:
        """Assigns bootstrap connections to the brokers at their addresses, which are returned.

        Closes the other ones, unless they wait for responses, and those to brokers that are not part of the cluster.
        """
        in_use, assigned = [], []
        by_address = {(node.host, node.port): node for node in metadata.brokers.values()}
        for link in self._of_bootstrap:
            node = by_address.get((link.node.host, link.node.port))
            if node is not None and link.broker is not None and (node.id, "general") not in self._of_brokers:
                link.become(node)
                self._of_brokers[node.id, "general"] = link
                assigned.append(node)
            elif link.is_in_use:
                in_use.append(link)
            else:
                link.close()
        self._of_bootstrap = in_use
        for node_id, purpose in list(self._of_brokers):
            if node_id not in metadata.brokers:
                self._of_brokers.pop((node_id, purpose)).close()
        return assigned

    def close(self) -> None:
        """Closes and forgets all links."""
        for link in self._all():
            link.close()
        self._of_brokers.clear()
        self._of_bootstrap.clear()

    async def close_idle(self, idle_s: float) -> None:
        """Closes connections that have been idle for so long, until cancelled; none if it is negative."""
        while idle_s >= 0:
            await trio.sleep(min(_IDLE_CHECK_S, idle_s / 2 + _IDLE_CHECK_MIN_S))
            for link in self._all():
                broker = link.broker
                if broker is not None and not broker.in_flight and broker.used_at < trio.current_time() - idle_s:
                    link.close()

    def _all(self) -> list[BrokerLink]:
        return [*self._of_brokers.values(), *self._of_bootstrap]
