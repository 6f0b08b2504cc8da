"""Large histories as Parquet, with anomalies planted at known positions, for `bench_spark_check`."""

from benchmarks.histories.large import LargeHistory, write_large_history
from benchmarks.histories.plants import KINDS, Plants

__all__ = ["KINDS", "LargeHistory", "Plants", "write_large_history"]
