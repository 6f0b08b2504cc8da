"""Decoding and encoding of record batches, as Arrow columns and as single records, alternating in one process.

Figures are millions of records per CPU second, the best of several repetitions; the ratio is that of the Arrow path to
the record path in the same run. Batches are of 16 KiB and of 1 MiB, uncompressed; `produce_arrow` writes the latter.

python -m benchmarks.bench_arrow
"""

import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

import pyarrow as pa

from benchmarks.report import number, save, table
from broker.client.arrow import decode_arrow
from broker.client.arrow.records import ArrowRecords
from broker.client.records import NewRecord, decode_records, encode_records
from broker.wire.records import Compression, patch

_TIME: Final = 1_700_000_000_000
_FETCHED_BYTES: Final = 8 << 20
_TURNS: Final = 5


def main() -> None:
    rows, figures = [], {}
    for name, sizes in _shapes().items():
        for batch_bytes in (16 << 10, 1 << 20):
            figure = _measure(sizes, batch_bytes)
            figures[f"{name}, {batch_bytes}"] = figure
            rows.append([f"{name}, batches of {batch_bytes >> 10} KiB", *map(number, figure)])
    head = ["values", "decode records", "decode Arrow", "ratio", "encode records", "encode Arrow", "ratio"]
    print(table(head, rows))
    print(f"\n{save('arrow', {'figures': figures})}")


def _shapes() -> dict[str, list[int]]:
    rng = Random(1)
    return {
        "100 B": [100] * 20_000,
        "60 to 140 B": [rng.randint(60, 140) for _ in range(20_000)],
        "1 KiB": [1024] * 4_000,
    }


def _measure(sizes: Sequence[int], batch_bytes: int) -> list[float]:
    count = batch_bytes // (sum(sizes) // len(sizes))
    records: list[NewRecord] = [(_TIME + n // 20, None, b"x" * sizes[n % len(sizes)], ()) for n in range(count)]
    batch = encode_records(records, compression=Compression.NONE)
    repeats = _FETCHED_BYTES // len(batch)
    figures: list[float] = []
    for seconds in (_decode(batch, count, repeats), _encode(records, repeats)):
        each, together = (count * repeats / spent / 1e6 for spent in seconds)
        figures += [each, together, together / each]
    return figures


def _decode(batch: bytes, count: int, repeats: int) -> list[float]:
    fetched = bytearray(batch * repeats)
    for index in range(repeats):
        patch(fetched, index * len(batch), index * count, 0)
    data = bytes(fetched)

    def decode_each() -> None:
        # The size of one partition in a fetch, so that memory use is that of a consumer.
        portion = max(1, (1 << 20) // len(batch)) * len(batch)
        for at in range(0, len(data), portion):
            decode_records(data[at : at + portion], "t", 0, from_offset=0)

    return _in_turns(decode_each, lambda: sum(each.rows.num_rows for each in decode_arrow(data, "t", 0, from_offset=0)))


def _encode(records: list[NewRecord], repeats: int) -> list[float]:
    columns = ArrowRecords.of(pa.RecordBatch.from_pydict({"value": [record[2] for record in records]}), _TIME)

    def encode_each() -> None:
        for _ in range(repeats):
            encode_records(records, compression=Compression.NONE)

    def encode_together() -> None:
        for _ in range(repeats):
            columns.encode(compression=Compression.NONE)

    return _in_turns(encode_each, encode_together)


def _in_turns(*works: Callable[[], object]) -> list[float]:
    """The least CPU seconds of each function over alternating repetitions."""
    seconds: list[list[float]] = [[] for _ in works]
    for _ in range(_TURNS):
        for work, spent in zip(works, seconds, strict=True):
            started = time.process_time()
            work()
            spent.append(time.process_time() - started)
    return [min(spent) for spent in seconds]


if __name__ == "__main__":
    main()
