"""The collectors of a node, from which a scrape gathers all values."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Protocol

import trio

from broker.metrics.exposition import Format, exposition
from broker.metrics.metric import Family

# How long a scrape waits for values that other brokers have to be asked for. Prometheus gives up after 10 s.
PREPARATION_TIMEOUT_S = 2.0


class Collector(Protocol):
    """Reads the values of some metrics from the state of the node.

    Each metric belongs to one collector. The samples of a family may be generated: other tasks run between any two of
    them, so a generator must not iterate over a collection that may change meanwhile.
    """

    def collect(self) -> Iterable[Family]: ...


class MetricsRegistry:
    """All collectors of a node, in the order of the output.

    A collector that has to ask other brokers first is added with a function `prepare`. All these functions are awaited
    at the beginning of each scrape, at the same time, for a bounded time.
    """

    def __init__(self) -> None:
        self._collectors: list[Collector] = []
        self._preparations: list[Callable[[], Awaitable[None]]] = []

    def add(self, collector: Collector, prepare: Callable[[], Awaitable[None]] | None = None) -> None:
        """Include a collector's metrics in each scrape from now on."""
        self._collectors.append(collector)
        if prepare is not None:
            self._preparations.append(prepare)

    async def page(self, text_format: Format) -> Iterator[str]:
        """The text of all metrics, which are read when their place is reached."""
        await self._prepare()
        return exposition(self._collect(), text_format)

    async def _prepare(self) -> None:
        """Let the collectors ask other brokers for what they need."""
        with trio.move_on_after(PREPARATION_TIMEOUT_S):
            async with trio.open_nursery() as nursery:
                for prepare in self._preparations:
                    nursery.start_soon(prepare)

    def _collect(self) -> Iterator[Family]:
        """All families, each read when it is reached."""
        for collector in self._collectors:
            yield from collector.collect()
