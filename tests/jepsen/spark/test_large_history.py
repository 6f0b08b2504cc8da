"""A large history has exactly the planted anomalies; Spark finds them."""

import json
from collections import Counter
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from benchmarks.bench_spark_check import CHECKERS
from benchmarks.histories import KINDS, LargeHistory, write_large_history
from jepsen.checkers import Verdict, judge
from jepsen.history import History
from jepsen.journal import operations_of
from jepsen.spark import check


def read_locally(directory: Path) -> History:
    rows = ds.dataset(directory).to_table().to_pylist()
    history = History(lambda: 0.0)
    history.operations = operations_of(
        {**row, "value": json.loads(row["value"]), "life": row["life"] or 0} for row in rows
    )
    return history


def broken(verdict: Verdict) -> Counter[str]:
    return Counter({each.name: each.broken for each in verdict.promises if each.broken})


@pytest.mark.parametrize("planted", [0, 2])
def test_spark_and_local_checkers_find_each_planted_anomaly_and_no_other(
    spark: SparkSession, tmp_path: Path, planted: int
) -> None:
    large = LargeHistory.of(operations=12_000, planted=planted)
    write_large_history(large, tmp_path)
    assert set(large.plants.counts().values()) == ({planted} if planted else {0})
    expected = large.plants.broken()
    local, found = judge(read_locally(tmp_path), CHECKERS), check(spark, [str(tmp_path)], CHECKERS)
    assert broken(local) == broken(found) == expected
    assert local.counts == found.counts
    assert sum(found.counts.values()) == large.operations >= 12_000


def test_all_kinds_are_planted_in_keys_of_their_own() -> None:
    large = LargeHistory.of(operations=100_000, planted=3)
    assert large.plants.counts() == dict.fromkeys(KINDS, 3)
    assert len(large.plants.partitions) == 3 * (len(KINDS) - 1)
    assert len(large.plants.registers) == 3


def test_more_anomalies_than_keys_are_refused() -> None:
    with pytest.raises(ValueError, match="need 70 partitions and 10 registers: there are 8 and"):
        LargeHistory.of(operations=10_000, planted=10, partitions=8)


def test_same_seed_makes_the_same_history(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_large_history(LargeHistory.of(operations=2_000, planted=1, seed=7), tmp_path / name)
    one, two = (ds.dataset(tmp_path / name).to_table() for name in ("one", "two"))
    assert one.equals(two)
