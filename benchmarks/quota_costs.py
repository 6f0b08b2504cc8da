"""The cost per request of quotas that are set and not reached, of metrics and of access control entries.

It is a ratio: what a request takes without them, divided by what it takes with them. A load is also measured twice
without them. That ratio shows how much of the others is chance.
"""

import random
import statistics
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

import attrs

from benchmarks import raw_loads
from benchmarks.counted_node import CountedKraft
from benchmarks.peers import Kraft, Peer
from benchmarks.raw_loads import PreparedLoad, RawLoad
from broker.client.admin import AclBinding, AclPermission, PatternType
from broker.client.blocking import SyncAdmin
from broker.security.acls import STANDARD_AUTHORIZER
from metadata.protocol import AclOperation, ResourceType

# The CPU time is measured in rounds after each start of the nodes, which learn a load's requests again in each round.
STARTS, ROUNDS = 5, 8
_ROUND_S, _WARM_UP_S = 0.3, 0.1

# Instructions are counted for so many requests of a load, with the first ones of each connection, which take more: with
# a third of them, request quotas seem to cost 2 % more. Large requests are left out, as the kernel does their work.
_COUNTED_REQUESTS = 36_000
_COUNTED_LOADS = (raw_loads.PRODUCE_SHALLOW, raw_loads.PRODUCE_DEEP, raw_loads.FETCH_SMALL)
_COUNT_TIMEOUT_S = 300

# Quotas that no load reaches.
_UNREACHED = 1e12
_NO_QUOTAS: Mapping[str, float | None] = {
    "producer_byte_rate": None,
    "consumer_byte_rate": None,
    "request_percentage": None,
}
_BYTE_QUOTAS = {**_NO_QUOTAS, "producer_byte_rate": _UNREACHED, "consumer_byte_rate": _UNREACHED}
_METRICS = {"http.listener": "127.0.0.1:0"}

_ACLS = {"authorizer.class.name": STANDARD_AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
# Each of the others has an entry for a topic, one for a prefix and one for all. The last two apply to the loads.
_OTHERS = 333

# The requests' costs in each case, by the case's name.
Costs = dict[str, list[float]]
Figures = Mapping[str, float]


@attrs.frozen
class Case:
    """A node with these quotas of a user set on it."""

    node: Kraft
    quotas: Mapping[str, float | None]


def set_quotas(peer: Peer, entity: Mapping[str, str | None], **values: float | None) -> None:
    with SyncAdmin(peer.bootstrap) as admin:
        admin.alter_client_quotas(entity, values)


def set_acls(peer: Peer) -> None:
    """Create a thousand entries, by which the loads' client is allowed everything on topics."""
    topic, write = ResourceType.TOPIC, AclOperation.WRITE
    anyone = AclBinding(topic, "*", "User:ANONYMOUS", AclOperation.ALL)
    others = [
        binding
        for number in range(_OTHERS)
        for binding in (
            AclBinding(topic, f"orders-{number}", f"User:{number}", write),
            AclBinding(topic, "bench-", f"User:{number}", write, pattern_type=PatternType.PREFIXED),
            AclBinding(topic, "*", f"User:{number}", write, permission=AclPermission.DENY),
        )
    ]
    with SyncAdmin(peer.bootstrap) as admin:
        admin.create_acls([anyone, *others]).raise_first()


def cpu_times(rounds: int) -> dict[str, Figures]:
    """The medians of CPU time in us per request, and of the ratios of rounds, by load.

    Processes that run the same code differ by some percent, for as long as they run. So quotas are set and removed on
    one node, and the nodes are started again several times.
    """
    costs: dict[str, Costs] = {}
    for _ in range(STARTS):
        with Kraft() as plain, Kraft(_METRICS) as with_metrics, Kraft(_ACLS) as with_acls:
            cases = _cases(plain, with_metrics, with_acls)
            for load in raw_loads.ALL:
                _measure(load, cases, rounds, costs.setdefault(load.name, {name: [] for name in cases}))
    return {name: _ratios(of_load, "us") for name, of_load in costs.items()}


def instructions() -> dict[str, Figures]:
    """The machine instructions per request, and their ratios, by load. Raises counted_node.Unavailable."""
    costs: dict[str, Costs] = {}
    for load in _COUNTED_LOADS:
        with CountedKraft() as plain, CountedKraft(_METRICS) as with_metrics, CountedKraft(_ACLS) as with_acls:
            cases = _cases(plain, with_metrics, with_acls)
            costs[load.name] = {name: [_count(load, case)] for name, case in cases.items()}
    return {name: _ratios(of_load, "instructions") for name, of_load in costs.items()}


def _cases(plain: Kraft, with_metrics: Kraft, with_acls: Kraft) -> dict[str, Case]:
    set_acls(with_acls)
    return {
        "": Case(plain, _NO_QUOTAS),
        "nothing": Case(plain, _NO_QUOTAS),
        "quotas": Case(plain, _BYTE_QUOTAS),
        "request_quotas": Case(plain, {**_BYTE_QUOTAS, "request_percentage": _UNREACHED}),
        "metrics": Case(with_metrics, _NO_QUOTAS),
        "acls": Case(with_acls, _NO_QUOTAS),
    }


def _measure(load: RawLoad, cases: Mapping[str, Case], rounds: int, costs: Costs) -> None:
    """Add the server's CPU time per request in rounds, each in an order of its own."""
    nodes = list(dict.fromkeys(case.node for case in cases.values()))
    with ExitStack() as stack:
        ready = {node: stack.enter_context(raw_loads.ready(load, node)) for node in nodes}
        order = list(cases.items())
        for _ in range(rounds):
            random.shuffle(order)
            for name, case in order:
                set_quotas(case.node, {"user": None}, **case.quotas)
                costs[name].append(ready[case.node].run(_ROUND_S, _WARM_UP_S).server_cpu_us)


def _count(load: RawLoad, case: Case) -> float:
    """The instructions per request of a load on a new topic."""
    node = case.node
    assert isinstance(node, CountedKraft), "it counts"
    set_quotas(node, {"user": None}, **case.quotas)
    with raw_loads.ready(load, node) as ready:
        _limited(ready, _COUNTED_REQUESTS // 4).run(_COUNT_TIMEOUT_S, 0)
        node.begin_count()
        served = _limited(ready, _COUNTED_REQUESTS).run(_COUNT_TIMEOUT_S, 0).requests
        return node.end_count() / served


def _limited(ready: PreparedLoad, requests: int) -> PreparedLoad:
    """The same load, which ends after so many requests."""
    bytes_max = requests * (ready.request_size + ready.reply_size)
    return attrs.evolve(ready, load=attrs.evolve(ready.load, bytes_max=bytes_max))


def _ratios(costs: Mapping[str, Sequence[float]], unit: str) -> Figures:
    figures = {unit: statistics.median(costs[""])}
    for name in list(costs)[1:]:
        figures[f"{unit}_with_{name}"] = statistics.median(costs[name])
        ratios = [before / after for before, after in zip(costs[""], costs[name], strict=True)]
        figures[f"ratio_with_{name}"] = statistics.median(ratios)
    return figures
