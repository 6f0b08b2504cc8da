"""Rounds that alternate between nodes, and the records that clients write in them."""

import zlib
from collections.abc import Callable, Mapping
from math import inf
from types import MappingProxyType

import attrs
import pytest

from benchmarks import client_loads
from benchmarks.figures import Figure, Series
from benchmarks.loadgen import LoadFailed
from benchmarks.rounds import WARM_UP_ROUNDS, alternate, exit_code, wait_until_idle


@attrs.define
class Node:
    """A node without a process: the loads of these tests ask nothing of it."""

    name: str
    bootstrap: str = ""
    replication_factor: int = 1
    client_configs: Mapping[str, object] = MappingProxyType({})

    def cpu_seconds(self) -> float:
        return 0.0


NODES = (Node("a"), Node("b"))


def noting(load: str, calls: list[tuple[str, str]]) -> Callable[[Node, float], list[Figure]]:
    """A load that notes its calls, and whose figure is their number."""

    def part(node: Node, _seconds: float) -> list[Figure]:
        calls.append((load, node.name))
        return [Figure(load, "calls", len(calls))]

    return part


def test_nodes_alternate_within_each_load_and_swap_places_in_each_round() -> None:
    calls: list[tuple[str, str]] = []
    alternate(NODES, {each: noting(each, calls) for each in ("x", "y")}, Series(["a", "b"]), 2, 1)
    rounds = [calls[at : at + 4] for at in range(0, len(calls), 4)]
    forth, back = [[(load, node) for load in "xy" for node in nodes] for nodes in ("ab", "ba")]
    assert rounds[WARM_UP_ROUNDS:] == [forth, back]
    assert len(rounds) == WARM_UP_ROUNDS + 2


def test_warm_up_is_not_measured() -> None:
    calls: list[tuple[str, str]] = []
    series = Series(["a", "b"])
    alternate(NODES, {"x": noting("x", calls)}, series, 3, 1)
    (measured,) = series.measured
    assert {node: len(values) for node, values in measured.values.items()} == {"a": 3, "b": 3}
    assert min(map(min, measured.values.values())) == 2 * WARM_UP_ROUNDS + 1


def test_load_begins_when_its_peers_have_ended_the_work_of_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.rounds._IDLE_WITHIN_S", inf)
    looks: list[str] = []

    @attrs.define
    class Busy(Node):
        """A node that has worked for a minute whenever it is looked at, the first three times."""

        left: int = 3
        used_s: float = 0.0

        def cpu_seconds(self) -> float:
            looks.append(self.name)
            if self.left:
                self.left -= 1
                self.used_s += 60.0
            return self.used_s

    wait_until_idle([Busy("a"), Node("b")])
    assert looks == ["a"] * 4  # before the wait, after work twice, and after none


def test_failed_round_is_noted_and_the_others_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    def refused_by_a(node: Node, _seconds: float) -> list[Figure]:
        if node.name == "a":
            raise LoadFailed("refused")
        return [Figure("x", "1/s", 1)]

    series = Series(["a", "b"])
    alternate(NODES, {"x": refused_by_a}, series, 2, 1)
    assert series.failed == ["x, a: refused"] * (WARM_UP_ROUNDS + 2)
    assert [each.values for each in series.measured] == [{"b": [1, 1]}]
    assert exit_code([series]) == 1
    assert "failed: x, a: refused" in capsys.readouterr().err
    assert exit_code([Series(["a", "b"])]) == 0


def test_documents_have_one_size_differ_and_compress_as_events_do() -> None:
    documents = client_loads.documents(1024)
    assert {len(each) for each in documents} == {1024}
    assert len(set(documents)) == len(documents)
    assert 2 < len(b"".join(documents)) / len(zlib.compress(b"".join(documents))) < 8
