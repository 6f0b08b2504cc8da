"""The benchmark of the metadata runs, and reports figures that grow with the number of partitions."""

from pathlib import Path

import attrs
import trio

from benchmarks.bench_metadata import HEAD, Figures, Timed, grown, measure


def test_it_measures_a_small_cluster(tmp_path: Path) -> None:
    figures = trio.run(measure, str(tmp_path), 100, 0.01)
    assert len(figures.cells()) == len(HEAD)
    assert figures.state_bytes > 100 * 30
    timed = (figures.taken, figures.started, figures.fetched)
    assert all(0 < each.pause_s < each.seconds + 0.01 for each in timed)


def test_figures_that_grow_with_the_partitions_fail_the_benchmark() -> None:
    few = Figures(100, 5_000, 0.1, 0.004, 0.0007, 0.001, Timed(), Timed(), Timed())
    many = attrs.evolve(few, partitions=10_000, create_s=10.0)
    assert grown([few, many]) == []
    assert grown([few, attrs.evolve(many, change_cpu_s=0.002)]) == ["one change"]
    assert grown([few, attrs.evolve(many, idle=0.05)]) == ["idle"]
