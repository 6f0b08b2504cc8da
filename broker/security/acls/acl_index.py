"""All access control entries, arranged by what a decision looks up.

The cost of a decision does not grow with the number of entries. It grows with the entries of the client's principal on
the patterns that apply to the resource, and with the number of different lengths of prefixes.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TypeAlias, TypeVar

from metadata.image import WILDCARD, AccessControlEntry, Network, host_network
from metadata.protocol import AclOperation, PatternType, ResourceType

K = TypeVar("K")

Pattern: TypeAlias = tuple[PatternType, str]
_Networks: TypeAlias = dict[AccessControlEntry, Network | None]
_Address: TypeAlias = IPv4Address | IPv6Address


class AclIndex:
    """Entries are added once and removed once."""

    def __init__(self) -> None:
        # By type of resource and principal: the entries of each pattern, with the networks of hosts that have one.
        self._entries: dict[tuple[ResourceType, str], dict[Pattern, _Networks]] = {}
        self._patterns: defaultdict[ResourceType, Counter[Pattern]] = defaultdict(Counter)
        self._prefix_lengths: defaultdict[ResourceType, Counter[int]] = defaultdict(Counter)

    def add(self, entry: AccessControlEntry) -> None:
        pattern = (entry.pattern_type, entry.resource_name)
        by_pattern = self._entries.setdefault((entry.resource_type, entry.principal), {})
        by_pattern.setdefault(pattern, {})[entry] = _network(entry.host)
        self._patterns[entry.resource_type][pattern] += 1
        if entry.pattern_type is PatternType.PREFIXED:
            self._prefix_lengths[entry.resource_type][len(entry.resource_name)] += 1

    def remove(self, entry: AccessControlEntry) -> None:
        kind, pattern = entry.resource_type, (entry.pattern_type, entry.resource_name)
        by_pattern = self._entries[kind, entry.principal]
        del by_pattern[pattern][entry]
        if not by_pattern[pattern]:
            del by_pattern[pattern]
        if not by_pattern:
            del self._entries[kind, entry.principal]
        _decrement(self._patterns[kind], pattern)
        if entry.pattern_type is PatternType.PREFIXED:
            _decrement(self._prefix_lengths[kind], len(entry.resource_name))

    def patterns(self, kind: ResourceType, name: str) -> list[Pattern]:
        """The patterns that apply to the resource, out of those for which there are entries of any principal."""
        known = self._patterns[kind]
        candidates = [(PatternType.LITERAL, name), (PatternType.LITERAL, WILDCARD)]
        candidates += [
            (PatternType.PREFIXED, name[:length]) for length in self._prefix_lengths[kind] if length <= len(name)
        ]
        return [pattern for pattern in dict.fromkeys(candidates) if pattern in known]

    def entries(
        self, kind: ResourceType, principals: Iterable[str], patterns: Iterable[Pattern], host: str
    ) -> Iterator[AccessControlEntry]:
        """The entries of these principals and patterns that apply to a client at `host`, which is an address."""
        address = _address(host)
        for principal in principals:
            by_pattern = self._entries.get((kind, principal))
            if by_pattern:
                for pattern in patterns:
                    yield from _of_host(by_pattern.get(pattern), host, address)

    def all_entries(self, kind: ResourceType, principals: Iterable[str], host: str) -> Iterator[AccessControlEntry]:
        """The entries of these principals on any resources of a type that apply to a client at `host`."""
        address = _address(host)
        for principal in principals:
            for networks in self._entries.get((kind, principal), {}).values():
                yield from _of_host(networks, host, address)


def covers(entry: AccessControlEntry, operation: AclOperation) -> bool:
    """True if the entry is about this very operation, or about all."""
    return entry.operation in (operation, AclOperation.ALL)


def _of_host(networks: _Networks | None, host: str, address: _Address | None) -> Iterator[AccessControlEntry]:
    for entry, network in (networks or {}).items():
        if entry.host in (WILDCARD, host) or (address is not None and network is not None and address in network):
            yield entry


def _address(host: str) -> _Address | None:
    """The address of a client; that of IPv4 for one that IPv6 wraps."""
    try:
        address = ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _network(host: str) -> Network | None:
    """The range of addresses of a host; None for WILDCARD, and for a text that is no address."""
    try:
        return None if host == WILDCARD else host_network(host) or ip_network(host)
    except ValueError:  # as in Kafka, such an entry applies to no client
        return None


def _decrement(counts: Counter[K], key: K) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
