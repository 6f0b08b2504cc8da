"""The framing and the limits of the compressions."""

import contextlib
import gzip
import random
import struct
import time
import tracemalloc
import zlib

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from broker.wire.records import Compression, CorruptBatch
from broker.wire.records.compression import compress, decompress

CODECS = [codec for codec in Compression if codec]
XERIAL_HEADER = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
MIXED = random.Random(7).randbytes(100_000) + b"hello, world; " * 20_000


def test_names_are_those_of_the_configs() -> None:
    assert [codec.config_name for codec in Compression] == ["none", "gzip", "snappy", "lz4", "zstd"]
    assert [Compression.of(codec.config_name) for codec in Compression] == list(Compression)
    with pytest.raises(ValueError, match="brotli"):
        Compression.of("brotli")


@given(st.sampled_from(Compression), st.binary(max_size=5000), st.integers(1, 100))
def test_decompression_returns_the_compressed_data(codec: Compression, piece: bytes, times: int) -> None:
    data = piece * times
    compressed = compress(codec, data)
    assert decompress(codec, compressed, len(data)) == data
    assert decompress(codec, memoryview(bytearray(compressed)), len(data) + 1) == data


@pytest.mark.parametrize(
    ("codec", "levels"),
    [(Compression.GZIP, (-1, 1, 9)), (Compression.LZ4, (1, 9, 17)), (Compression.ZSTD, (-131072, 3, 22))],
)
def test_kafkas_levels_are_taken(codec: Compression, levels: tuple[int, ...]) -> None:
    for level in levels:
        assert decompress(codec, compress(codec, MIXED[:150_000], level), 150_000) == MIXED[:150_000]


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("max_size", [0, 1, 65_536, len(MIXED) - 1])
def test_more_than_allowed_is_corrupt(codec: Compression, max_size: int) -> None:
    with pytest.raises(CorruptBatch, match=f"more than the {max_size} bytes"):
        decompress(codec, compress(codec, MIXED), max_size)


@pytest.mark.parametrize("codec", CODECS)
def test_cut_data_is_corrupt(codec: Compression) -> None:
    compressed = compress(codec, MIXED)
    # The blocks of snappy-java's stream are independent: cut between two blocks, it is a valid, shorter stream.
    cuts = range(1, 16) if codec is Compression.SNAPPY else (1, 2, 4, 5, 8, 9, 17, 20)
    for cut in (*cuts, len(compressed) // 2 + 1):
        with pytest.raises(CorruptBatch):
            decompress(codec, compressed[:-cut], len(MIXED))
    for size in range(12):
        with pytest.raises(CorruptBatch):
            decompress(codec, compressed[:size], len(MIXED))


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_takes_no_more_memory_than_allowed(codec: Compression) -> None:
    bomb = compress(codec, bytes(64 * 1024 * 1024))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatch):
            decompress(codec, bomb, 1024 * 1024)
        assert tracemalloc.get_traced_memory()[1] < 8 * 1024 * 1024
    finally:
        tracemalloc.stop()


@given(st.sampled_from(CODECS), st.binary(max_size=2000), st.booleans(), st.data())
def test_mutated_data_raises_corrupt_batch_only(
    codec: Compression, piece: bytes, long: bool, data: st.DataObject
) -> None:
    compressed = bytearray(compress(codec, piece * 100 if long else piece))
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(compressed) - 1))
        compressed[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
        if not compressed:
            break
    with contextlib.suppress(CorruptBatch):
        assert len(decompress(codec, compressed, 100_000)) <= 100_000


@given(st.sampled_from(CODECS), st.binary(max_size=200))
def test_garbage_raises_corrupt_batch_only(codec: Compression, garbage: bytes) -> None:
    magics = {
        Compression.SNAPPY: XERIAL_HEADER,
        Compression.GZIP: b"\x1f\x8b\x08",
        Compression.LZ4: b"\x04\x22\x4d\x18",
    }
    for data in (garbage, magics.get(codec, b"\x28\xb5\x2f\xfd") + garbage):
        with contextlib.suppress(CorruptBatch):
            decompress(codec, data, 10_000)


# gzip


def test_gzip_is_read_by_the_standard_library() -> None:
    assert gzip.decompress(compress(Compression.GZIP, MIXED)) == MIXED


def test_gzip_members_are_joined_and_other_bytes_are_ignored() -> None:
    members = gzip.compress(b"one ") + gzip.compress(b"") + gzip.compress(b"two")
    assert decompress(Compression.GZIP, members, 7) == b"one two"
    assert decompress(Compression.GZIP, members + bytes(30), 7) == b"one two"
    with pytest.raises(CorruptBatch):
        decompress(Compression.GZIP, members, 6)


def test_a_wrong_gzip_checksum_is_corrupt() -> None:
    compressed = bytearray(gzip.compress(b"data"))
    compressed[-8] ^= 1
    with pytest.raises(CorruptBatch):
        decompress(Compression.GZIP, compressed, 100)


def test_small_gzip_members_take_linear_time() -> None:
    members = gzip.compress(bytes(random.Random(1).randbytes(1_000))) * 10_000
    started = time.thread_time()
    assert len(decompress(Compression.GZIP, members, 10_000_000)) == 10_000_000
    assert time.thread_time() - started < 5


ZSTD_FRAME = b"\x28\xb5\x2f\xfd\x00\x58"  # without a content size
SNAPPY_OF_NOTHING = struct.pack(">i", 1) + b"\0"
ZSTD_BLOCK_OF_NOTHING = b"\0\0\0"


@pytest.mark.parametrize(
    ("codec", "start", "piece", "end"),
    [
        (Compression.GZIP, b"", gzip.compress(b""), b""),
        (Compression.SNAPPY, XERIAL_HEADER, SNAPPY_OF_NOTHING, b""),
        (Compression.ZSTD, ZSTD_FRAME, ZSTD_BLOCK_OF_NOTHING, b"\1\0\0"),
        (Compression.ZSTD, b"", ZSTD_FRAME + b"\1\0\0", b""),
        (Compression.ZSTD, b"", b"\x50\x2a\x4d\x18\0\0\0\0", ZSTD_FRAME + b"\1\0\0"),
    ],
    ids=["gzip members", "snappy blocks", "zstd blocks", "zstd frames", "skippable zstd frames"],
)
def test_data_in_very_many_pieces_is_refused(codec: Compression, start: bytes, piece: bytes, end: bytes) -> None:
    """Each piece is a step in Python: a megabyte of empty zstd blocks would take a third of a second."""
    assert decompress(codec, start + piece * 30 + end, 100) == b""
    with pytest.raises(CorruptBatch, match="pieces"):
        decompress(codec, start + piece * 300_000 + end, 100)


@pytest.mark.parametrize(
    ("codec", "stream"),
    [(Compression.GZIP, gzip.compress(b"")), (Compression.ZSTD, ZSTD_FRAME + b"\1\0\0")],
    ids=["gzip member", "zstd frame"],
)
def test_streams_within_compressed_data_are_bounded_by_their_cost(codec: Compression, stream: bytes) -> None:
    """A member of gzip or a frame of zstd takes as long as many blocks: 50,000 took 0.2 s for a megabyte."""
    assert decompress(codec, stream * 60, 100) == b""
    with pytest.raises(CorruptBatch, match="pieces"):
        decompress(codec, stream * 1_500, 100)


# snappy


def test_snappy_is_written_as_snappy_java_does() -> None:
    data = MIXED[:40_000]
    compressed = compress(Compression.SNAPPY, data)
    assert compressed[:16] == XERIAL_HEADER
    (first,) = struct.unpack_from(">i", compressed, 16)
    assert bytes(cramjam.snappy.decompress_raw(compressed[20 : 20 + first])) == data[: 32 * 1024]
    (second,) = struct.unpack_from(">i", compressed, 20 + first)
    assert bytes(cramjam.snappy.decompress_raw(compressed[24 + first :])) == data[32 * 1024 :]
    assert len(compressed) == 24 + first + second


def test_bare_snappy_blocks_are_read() -> None:
    assert decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(MIXED)), len(MIXED)) == MIXED


def test_snappy_java_streams_may_follow_one_another() -> None:
    assert (
        decompress(Compression.SNAPPY, compress(Compression.SNAPPY, b"one ") + compress(Compression.SNAPPY, b"two"), 7)
        == b"one two"
    )


def test_bytes_too_few_for_a_snappy_block_are_ignored_as_snappy_java_does() -> None:
    assert decompress(Compression.SNAPPY, compress(Compression.SNAPPY, b"data") + b"xyz", 4) == b"data"


def test_the_version_in_snappy_javas_header_may_be_little_endian() -> None:
    swapped = b"\x82SNAPPY\x00\x01\x00\x00\x00\x01\x00\x00\x00" + compress(Compression.SNAPPY, b"data")[16:]
    assert decompress(Compression.SNAPPY, swapped, 4) == b"data"


@pytest.mark.parametrize("length", [-1, 0, 1000, 2**31 - 1, -(2**31)])
def test_a_wrong_snappy_block_length_is_corrupt(length: int) -> None:
    with pytest.raises(CorruptBatch):
        decompress(Compression.SNAPPY, XERIAL_HEADER + struct.pack(">i", length) + b"\x01\x00a", 1000)


def test_a_snappy_length_is_believed_up_to_the_bound_only() -> None:
    with pytest.raises(CorruptBatch, match="more than"):
        decompress(Compression.SNAPPY, b"\xff\xff\xff\xff\x0f" + b"\x00a", 1000)


# lz4


def test_lz4_blocks_are_independent_and_at_most_64_kib() -> None:
    flags, descriptor = compress(Compression.LZ4, MIXED)[4:6]
    assert flags == 0x60
    assert descriptor == 0x40


@pytest.mark.parametrize("block_size", [4, 5, 6, 7])
@pytest.mark.parametrize("checksums", [False, True])
def test_every_lz4_frame_with_independent_blocks_is_read(block_size: int, checksums: bool) -> None:
    compressed = lz4.frame.compress(
        MIXED,
        block_size=block_size,
        block_linked=False,
        content_checksum=checksums,
        block_checksum=checksums,
        store_size=checksums,
    )
    assert decompress(Compression.LZ4, compressed, len(MIXED)) == MIXED


def test_lz4_linked_blocks_are_refused_as_java_cannot_read_them() -> None:
    with pytest.raises(CorruptBatch, match="dependent blocks"):
        decompress(Compression.LZ4, lz4.frame.compress(MIXED, block_linked=True), len(MIXED))


def test_only_the_first_lz4_frame_counts() -> None:
    compressed = compress(Compression.LZ4, b"one")
    assert decompress(Compression.LZ4, compressed + compress(Compression.LZ4, b"two"), 100) == b"one"
    assert decompress(Compression.LZ4, compressed + b"garbage", 100) == b"one"


# zstd


def streamed_zstd(data: bytes) -> bytes:
    """A frame as written by streaming writers, whose header does not contain the content's size."""
    compressor = zstandard.ZstdCompressor(level=3).compressobj()
    frame = compressor.compress(data) + compressor.flush()
    assert zstandard.frame_content_size(frame) == -1
    return frame


def test_zstd_without_content_size_is_read() -> None:
    for data in (b"a", MIXED, bytes(1_000_000)):
        assert decompress(Compression.ZSTD, streamed_zstd(data), len(data)) == data
        with pytest.raises(CorruptBatch, match="more than"):
            decompress(Compression.ZSTD, streamed_zstd(data), len(data) - 1)


@pytest.mark.parametrize("cut", [1, 2, 3, 4, 100])
def test_cut_zstd_without_content_size_is_corrupt(cut: int) -> None:
    with pytest.raises(CorruptBatch):
        decompress(Compression.ZSTD, streamed_zstd(MIXED)[:-cut], len(MIXED))


def test_zstd_frames_are_joined_and_skippable_ones_skipped() -> None:
    skippable = struct.pack("<II", 0x184D2A5F, 3) + b"xyz"
    checked = zstandard.ZstdCompressor(write_checksum=True).compress(b"two")
    frames = skippable + compress(Compression.ZSTD, b"one ") + skippable + checked + streamed_zstd(b" three")
    assert decompress(Compression.ZSTD, frames, 13) == b"one two three"
    with pytest.raises(CorruptBatch):
        decompress(Compression.ZSTD, frames, 12)
    with pytest.raises(CorruptBatch, match="ends too early"):
        decompress(Compression.ZSTD, frames + skippable[:-1], 13)


def test_garbage_after_a_zstd_frame_is_corrupt() -> None:
    with pytest.raises(CorruptBatch):
        decompress(Compression.ZSTD, compress(Compression.ZSTD, b"data") + b"garbage!", 100)


def test_a_wrong_zstd_checksum_is_corrupt() -> None:
    compressed = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(b"data"))
    compressed[-1] ^= 1
    with pytest.raises(CorruptBatch):
        decompress(Compression.ZSTD, compressed, 100)


def test_a_zstd_content_size_is_believed_up_to_the_bound_only() -> None:
    # Single segment, content size of 8 bytes, one empty last raw block.
    frame = b"\x28\xb5\x2f\xfd\xe0" + (2**40).to_bytes(8, "little") + b"\x01\x00\x00"
    with pytest.raises(CorruptBatch):
        decompress(Compression.ZSTD, frame, 1000)


def test_the_crc_of_gzip_is_zlibs() -> None:
    compressed = compress(Compression.GZIP, MIXED)
    assert compressed[-8:] == struct.pack("<II", zlib.crc32(MIXED), len(MIXED))
