"""The lag and the rate in the progress of a streaming query."""

from broker.client import TopicPartition
from broker.spark.streaming.progress import Progress

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


def test_lag_is_from_the_end_of_the_batch_to_the_ends_of_partitions() -> None:
    progress = Progress(lambda: 0.0)
    progress.observe({FIRST: 10, SECOND: 40})
    assert progress.metrics({FIRST: 10, SECOND: 20}) == {
        "minOffsetsBehindLatest": 0,
        "maxOffsetsBehindLatest": 20,
        "avgOffsetsBehindLatest": 10.0,
        "totalOffsetsBehindLatest": 20,
        "appendedRowsPerSecond": 0.0,
    }


def test_rate_is_a_mean_over_the_last_minute() -> None:
    now_s = 0.0
    progress = Progress(lambda: now_s)
    for second in range(300):
        now_s = float(second)
        progress.observe({FIRST: second * (10 if second < 200 else 20) - (2_000 if second >= 200 else 0)})
    assert progress.metrics({})["appendedRowsPerSecond"] == 20.0


def test_a_new_partition_does_not_count_as_appended_rows() -> None:
    now_s = 0.0
    progress = Progress(lambda: now_s)
    progress.observe({FIRST: 10})
    now_s = 10.0
    progress.observe({FIRST: 20, SECOND: 1_000})
    assert progress.metrics({})["appendedRowsPerSecond"] == 1.0
