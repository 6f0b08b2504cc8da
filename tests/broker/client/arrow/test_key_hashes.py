"""The hashes of many keys at once equal those of single keys."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from broker.client.arrow.key_hashes import hash_keys
from broker.client.producer.partitioners import KeyHashes

keys = st.lists(st.none() | st.binary(max_size=20) | st.binary(min_size=250, max_size=270), max_size=30)


@given(keys, st.integers(0, 3))
def test_hashes_are_those_of_single_keys(keys: list[bytes | None], skipped: int) -> None:
    column = pa.array(keys, pa.binary())[skipped:]
    single = KeyHashes()
    assert hash_keys(column).tolist() == [0 if key is None else single[key] for key in keys[skipped:]]


def test_hashes_are_those_of_javas_client() -> None:
    # UtilsTest.testMurmur2, made positive.
    expected = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536}
    found = hash_keys(pa.array(list(expected), pa.binary())).tolist()
    assert found == [hashed & 0x7FFFFFFF for hashed in expected.values()]
