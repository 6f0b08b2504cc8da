"""Hypothesis strategies of records: single ones of all shapes, and sequences of records with the same shape."""

from itertools import chain

from hypothesis import strategies as st

from broker.wire.records import HEADER_SIZE, NO_TIMESTAMP, Record, encode_batch

TIME = 1_700_000_000_000

sizes = st.integers(0, 40) | st.sampled_from([63, 64, 100, 127, 128, 300, 9000])
optional_sizes = st.none() | sizes
some_headers = st.lists(st.tuples(st.text(max_size=9), st.none() | st.binary(max_size=70)), max_size=3)
header_lists = st.just(()) | some_headers.map(tuple)
time_steps = st.sampled_from([0, 0, 1, 3, 63, 64, -1, -65, 2**33, -(2**40)])


@st.composite
def record_runs(draw: st.DrawFn) -> list[Record]:
    """From 1 to 300 records of the same shape, whose contents and timestamps may differ."""
    key_size, value_size = draw(optional_sizes), draw(optional_sizes)
    headers = draw(header_lists)
    start, step = draw(st.sampled_from([NO_TIMESTAMP, 0, TIME])), draw(time_steps)
    content = draw(st.binary(min_size=1, max_size=4))
    count = draw(st.sampled_from([1, 1, 1, 2, 9, 10, 70, 300]))
    return [
        Record(
            timestamp=start + step * index,
            key=_content(content, index, key_size),
            value=_content(content, index + 1, value_size),
            headers=headers,
        )
        for index in range(count)
    ]


def _content(seed: bytes, index: int, size: int | None) -> bytes | None:
    return None if size is None else (b"%d" % index + seed * size)[:size]


records_lists = st.lists(record_runs(), min_size=1, max_size=6).map(lambda runs: list(chain.from_iterable(runs)))


def encoded_records(records: list[Record]) -> bytes:
    """Encode the records as in a batch, without its header."""
    return encode_batch(records, base_offset=0, last_offset=0)[HEADER_SIZE:]
