"""The conditions of a link under a fault, and the links that a fault concerns."""

from collections.abc import Mapping
from typing import Any, Final

import attrs

from jepsen.testing.errors import BadRequest
from jepsen.testing.faults.fault import TEST_SERVER
from jepsen.testing.word_types import Word
from jepsen.testing.words import Words

CONDITION_WORDS: Final[Mapping[str, Word]] = {
    "cut": Word.true("Bytes and connects are held until the end of the fault."),
    "black_hole": Word.true("Bytes are lost. Connections that have lost some are reset at the end."),
    "half_open": Word.true("The receiver has lost the connections that are open now; the sender does not know it."),
    "reset_after_bytes": Word.integer("Each connection is reset after so many bytes.", 0),
    "times": Word.integer("So many connections are reset at most. Goes with reset_after_bytes.", 1),
    "latency_ms": Word.number("Bytes arrive so much later.", default=0.0),
    "jitter_ms": Word.number("Up to so much is added to the latency.", default=0.0),
    "seed": Word.integer("Draws the jitter.", default=0),
    "bytes_per_s": Word.number("The bandwidth of all connections of a node on the link together.", 1),
}
# Clients whose ids begin so are nodes: their connections belong to links between nodes.
_NODES: Final = ("broker-", "raft-client-")


@attrs.frozen
class LinkConditions:
    """One fault has one of `cut`, `black_hole`, `half_open`, `reset_after_bytes`, or a latency or a bandwidth, or both.

    `cut` holds bytes and connects until the end of the fault. `black_hole` loses bytes, holds connects, and resets the
    connections that have lost some at the end. `half_open` breaks connections for their receiver alone.
    `reset_after_bytes` is the number of bytes that a connection still carries, `times` the number of connections that
    are reset at most. `latency_ms` is that of each piece of bytes; up to `jitter_ms`, drawn with `seed`, are added.
    `bytes_per_s` is the bandwidth of all connections of the link together.
    """

    cut: bool = False
    black_hole: bool = False
    half_open: bool = False
    reset_after_bytes: int | None = None
    times: int | None = None
    latency_ms: float = 0.0
    jitter_ms: float = 0.0
    seed: int = 0
    bytes_per_s: float | None = None

    @property
    def holds_connects(self) -> bool:
        return self.cut or self.black_hole


def read_conditions(words: Words) -> LinkConditions:
    """Take the words of the conditions. Raises BadRequest."""
    flags = {}
    for flag in ("cut", "black_hole", "half_open"):
        if flag in words:
            words.true(flag)
            flags[flag] = True
    conditions = LinkConditions(
        **flags,
        reset_after_bytes=words.integer("reset_after_bytes") if "reset_after_bytes" in words else None,
        times=words.integer("times") if "times" in words else None,
        latency_ms=words.number("latency_ms", 0.0),
        jitter_ms=words.number("jitter_ms", 0.0),
        seed=words.integer("seed", 0),
        bytes_per_s=words.number("bytes_per_s") if "bytes_per_s" in words else None,
    )
    _check(conditions)
    return conditions


def _check(conditions: LinkConditions) -> None:
    """Raises BadRequest."""
    reset_after, times, bytes_per_s = conditions.reset_after_bytes, conditions.times, conditions.bytes_per_s
    if reset_after is not None and reset_after < 0:
        raise BadRequest("reset_after_bytes has to be 0 or more")
    if times is not None and (times < 1 or reset_after is None):
        raise BadRequest("times has to be 1 or more, and goes with reset_after_bytes")
    if bytes_per_s is not None and bytes_per_s < 1:
        raise BadRequest("bytes_per_s has to be 1 or more")
    is_slow = bool(conditions.latency_ms or conditions.jitter_ms or bytes_per_s)
    if conditions.cut + conditions.black_hole + conditions.half_open + (reset_after is not None) + is_slow != 1:
        raise BadRequest(
            "a link takes one of cut, black_hole, half_open, reset_after_bytes, or some of latency_ms, jitter_ms and "
            "bytes_per_s"
        )


def matches_name(pattern: str, name: str) -> bool:
    """True if the name is the pattern, or begins with it where the pattern ends with *."""
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


@attrs.frozen
class LinkFault:
    """`pairs` are the links between nodes that it concerns, each with its sender and its receiver.

    With `client_id` or `address`, it also concerns the links of these clients with `nodes`, towards the nodes, from
    them, or both. A client id that ends with * is a prefix. An address is a host, or a host and a port.
    """

    conditions: LinkConditions
    pairs: frozenset[tuple[int, int]] = frozenset()
    client_id: str | None = None
    address: str | None = None
    nodes: frozenset[int] = frozenset()
    to_nodes: bool = False
    from_nodes: bool = False

    @classmethod
    def of(cls, words: Mapping[str, Any]) -> "LinkFault":
        """The fault that `as_words` has described."""
        pairs = frozenset((sender, receiver) for sender, receiver in words["pairs"])
        conditions = LinkConditions(**words["conditions"])
        return cls(**{**words, "conditions": conditions, "pairs": pairs, "nodes": frozenset(words["nodes"])})

    def as_words(self) -> dict[str, Any]:
        """The fault as JSON has it."""
        return {**attrs.asdict(self), "pairs": sorted(map(list, self.pairs)), "nodes": sorted(self.nodes)}

    @property
    def concerned_nodes(self) -> frozenset[int]:
        """The nodes that have to know of the fault."""
        return self.nodes.union(*self.pairs)

    def directions(
        self, node: int, peer: int | None, client_id: str | None, address: tuple[str, int]
    ) -> tuple[bool, bool]:
        """True for each direction of a connection of `node` that it concerns: what the node receives, and sends.

        `peer` is the other node of a connection that this node has opened. `client_id` is that of a client whose
        connection this node has accepted; it is None before its first request.
        """
        if peer is not None:
            return (peer, node) in self.pairs, (node, peer) in self.pairs
        if client_id is None or node not in self.nodes or not self._matches(client_id, address):
            return False, False
        return self.to_nodes, self.from_nodes

    def _matches(self, client_id: str, address: tuple[str, int]) -> bool:
        if client_id.startswith((*_NODES, TEST_SERVER)):
            return False
        if self.client_id is not None and not matches_name(self.client_id, client_id):
            return False
        return self.address in (None, address[0], f"{address[0]}:{address[1]}")
