"""The condition of every directed link between two hosts."""

from random import Random

import attrs

# The one-way latency within a data centre.
LATENCY_SECONDS = 0.0005
JITTER_SECONDS = 0.0003
LOOPBACK_SECONDS = 0.00002
# The time to the first retransmission of a lost segment. It doubles with each further one.
RETRANSMISSION_SECONDS = 0.2
RETRANSMISSIONS_MAX = 8


@attrs.define
class Link:
    """The connection from one host to another. A blocked link carries nothing; `loss` is the probability that a segment
    has to be retransmitted.
    """

    is_blocked: bool = False
    latency: float = LATENCY_SECONDS
    loss: float = 0.0


class Links:
    """The links, by the names of the source and the target host."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._links: dict[tuple[str, str], Link] = {}

    def link(self, source: str, target: str) -> Link:
        """The link from `source` to `target`, which the caller may change."""
        return self._links.setdefault((source, target), Link())

    def is_blocked(self, source: str, target: str) -> bool:
        link = self._links.get((source, target))
        return link is not None and link.is_blocked

    def delay(self, source: str, target: str) -> float:
        """The time that the next segment takes."""
        if source == target:
            return LOOPBACK_SECONDS
        link = self._links.get((source, target))
        jitter = self._rng.expovariate(1 / JITTER_SECONDS)
        if link is None:
            return LATENCY_SECONDS + jitter
        delay, wait = link.latency + jitter, RETRANSMISSION_SECONDS
        for _ in range(RETRANSMISSIONS_MAX):
            if self._rng.random() >= link.loss:
                break
            delay += wait
            wait *= 2
        return delay

    def mend(self, source: str, target: str) -> None:
        self._links.pop((source, target), None)

    def heal(self) -> None:
        self._links.clear()
