"""Runs of records of one shape: their lengths, and the extremes of their timestamp deltas."""

from hypothesis import given
from hypothesis import strategies as st

from broker.wire.records import HEADER_SIZE, Record, encode_batch, read_header
from broker.wire.records.check import skip_record
from broker.wire.records.run import RUN_MIN, count_uniform_records
from broker.wire.records.varint import varint

TIME = 1_700_000_000_000
# Deltas whose varints have one byte, two, or three, with either sign; in some the second byte has few values.
ONE, TWO_OF_FEW, TWO, THREE = (0, 63), (65, 300), (65, 8191), (8193, 1_000_000)


@given(
    st.sampled_from([ONE, TWO_OF_FEW, TWO, THREE]).flatmap(
        lambda ends: st.lists(st.integers(*ends), min_size=RUN_MIN + 1, max_size=60)
    ),
    st.sampled_from(["forward", "back and forth", "negative", "either sign"]),
)
def test_the_extremes_of_timestamps_are_those_of_the_records(deltas: list[int], course: str) -> None:
    if course == "forward":
        deltas = sorted(deltas)
    elif course == "negative":
        deltas = [-delta for delta in deltas]
    elif course == "either sign":
        deltas = [delta * (-1) ** (delta % 3) for delta in deltas]
    # The batch's base timestamp is that of its first record.
    batch = encode_batch([Record(0, TIME), *(Record(1 + n, TIME + delta) for n, delta in enumerate(deltas))])
    data = batch[HEADER_SIZE:]
    start, _, _ = skip_record(data, 0, 0)
    end, _, _ = skip_record(data, start, 1)
    count, least, greatest = count_uniform_records(data, start, end - start, 1, len(data))
    expected = deltas[1 : 1 + count]
    assert read_header(batch).base_timestamp == TIME
    assert count == 0 or (min(expected), max(expected)) == (least, greatest)
    sizes = {len(varint(delta)) for delta in deltas}
    assert len(sizes) > 1 or count == len(expected) == len(deltas) - 1
