"""All access control entries, arranged by what a decision looks up.

The cost of a decision does not grow with the number of entries. It grows with the entries of the client's principal on
the patterns that apply to the resource, and with the number of different lengths of prefixes.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from ipaddress import ip_address
from typing import TypeAlias, TypeVar

from metadata.image import WILDCARD, AccessControlEntry, Network, host_network
from metadata.protocol import AclOperation, PatternType, ResourceType

K = TypeVar("K")

Pattern: TypeAlias = tuple[PatternType, str]
_Networks: TypeAlias = dict[AccessControlEntry, Network | None]


class AclIndex:
    """Entries are added once and removed once."""

    def __init__(self) -> None:
        # By type of resource and principal: the entries of each pattern, with the networks of hosts in CIDR notation.
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
        for principal in principals:
            by_pattern = self._entries.get((kind, principal))
            if by_pattern:
                for pattern in patterns:
                    yield from _of_host(by_pattern.get(pattern), host)

    def all_entries(self, kind: ResourceType, principals: Iterable[str], host: str) -> Iterator[AccessControlEntry]:
        """The entries of these principals on any resources of a type that apply to a client at `host`."""
        for principal in principals:
            for networks in self._entries.get((kind, principal), {}).values():
                yield from _of_host(networks, host)


def covers(entry: AccessControlEntry, operation: AclOperation) -> bool:
    """True if the entry is about this very operation, or about all."""
    return entry.operation in (operation, AclOperation.ALL)


def _of_host(networks: _Networks | None, host: str) -> Iterator[AccessControlEntry]:
    for entry, network in (networks or {}).items():
        if entry.host in (WILDCARD, host) or _is_at(host, entry.host, network):
            yield entry


def _is_at(host: str, wanted: str, network: Network | None) -> bool:
    """True if the address is in the network, or is the wanted one in another notation of IPv6."""
    if network is None and ":" not in wanted:
        return False
    try:
        address = ip_address(host)
        address = getattr(address, "ipv4_mapped", None) or address
        return address == ip_address(wanted) if network is None else address in network
    except ValueError:
        return False


def _network(host: str) -> Network | None:
    try:
        return host_network(host)
    except ValueError:  # the controller refuses it; such an entry applies to no client
        return None


def _decrement(counts: Counter[K], key: K) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
