"""The five compressions of record batches, in the framings that Java's clients write and read.

gzip: RFC 1952 members. snappy: snappy-java's stream (a header, then raw snappy blocks, each after its length); on
reading also one bare raw block, which is what librdkafka and others send. lz4: the LZ4 frame format with independent
blocks. zstd: Zstandard frames, with or without their content size.

The libraries are imported when they are first used. Together they take 4 MB, and most nodes use one of them or none.

Decompression is bounded by the caller and raises CorruptBatch alone, whatever the bytes are. As in Java's streams,
bytes after the first lz4 frame are ignored, and further gzip members, snappy streams and zstd frames are read.
"""

import zlib
from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import Final, TypeAlias

from broker.wire.records.errors import CorruptBatch, TooLargeContent

Buffer: TypeAlias = bytes | bytearray | memoryview


class Compression(IntEnum):
    """Kafka's compression types; the value is the code in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def config_name(self) -> str:
        """The name that configs such as `compression.type` have for it."""
        return self.name.lower()

    @classmethod
    def of(cls, config_name: str) -> "Compression":
        """The compression a config names. Raises ValueError for any other name."""
        for compression in cls:
            if compression.config_name == config_name:
                return compression
        raise ValueError(f"Unknown compression name: {config_name}")


# How many blocks compressed data may consist of, whatever its size, and beyond that.
_PIECES_MIN: Final = 1024
_PIECE_SIZE_MIN: Final = 48
# A gzip member or a zstd frame counts as so many blocks. Each takes about 5 us, and clients write one in all.
_PIECES_OF_A_STREAM: Final = 16

# The bytes that identify a frame of any codec, and hold a zstd frame's claim of its content's size.
_START_SIZE: Final = 18


def compress(codec: Compression, data: Buffer, level: int | None = None) -> bytes:
    """`data` in `codec`'s framing. Levels are Kafka's (KIP-390), for gzip, lz4 and zstd; None is the default."""
    if codec is Compression.GZIP:
        return zlib.compress(data, zlib.Z_DEFAULT_COMPRESSION if level is None else level, _GZIP_WBITS)
    if codec is Compression.SNAPPY:
        return _compress_snappy(data)
    if codec is Compression.LZ4:
        return _compress_lz4(data, level)
    if codec is Compression.ZSTD:
        import zstandard

        return zstandard.ZstdCompressor(level=_ZSTD_LEVEL_DEFAULT if level is None else level).compress(data)
    return bytes(data)


def decompress(codec: Compression, data: Buffer, max_size: int) -> bytes:
    """Decompresses `data`. Raises CorruptBatch when that is damaged, cut or more than `max_size` bytes.

    The memory it touches stays near `max_size` whatever `data` claims, and its time linear in len(data) + `max_size`.
    """
    if codec is Compression.GZIP:
        return _decompress_gzip(data, max_size)
    if codec is Compression.SNAPPY:
        return _decompress_snappy(data, max_size)
    if codec is Compression.LZ4:
        return _decompress_lz4(data, max_size)
    if codec is Compression.ZSTD:
        return _decompress_zstd(data, max_size)
    if len(data) > max_size:
        raise _too_large(codec, max_size)
    return bytes(data)


def claimed_size(codec: Compression, data: Buffer) -> int | None:
    """The decompressed size that `data` claims; None if it has no claim. Cheap to read, and not to be trusted.

    Raises CorruptBatch where `data` does not begin as the codec's framing does.
    """
    start = bytes(data[:_START_SIZE])
    if codec is Compression.SNAPPY:
        return None if start.startswith(_XERIAL_MAGIC) else _snappy_size(data)
    if codec is Compression.GZIP and start.startswith(_GZIP_MAGIC) and len(data) >= _GZIP_MEMBER_SIZE_MIN:
        return int.from_bytes(data[-_GZIP_SIZE_SIZE:], "little")  # the last member's, which most likely is the only one
    if codec is Compression.LZ4 and start.startswith(_LZ4_MAGIC) and len(data) >= _LZ4_HEADER_SIZE_MIN:
        return None
    if codec is Compression.ZSTD and start.startswith(_ZSTD_MAGIC_BYTES):
        import zstandard

        try:
            content_size = zstandard.frame_content_size(start)
        except zstandard.ZstdError as error:
            raise _damaged(codec, error) from None
        return None if content_size < 0 else content_size
    if codec is Compression.NONE:
        return len(data)
    raise _damaged(codec, "not its framing")


def _snappy_size(data: Buffer) -> int:
    import cramjam

    try:
        return cramjam.snappy.decompress_raw_len(data)
    except cramjam.DecompressionError as error:
        raise _damaged(Compression.SNAPPY, error) from None


def _check_pieces(codec: Compression, pieces: int, size: int) -> None:
    """Refuses data in very many pieces: each costs about 1 us in Python, even an empty one of three bytes.

    Encoders make pieces of 1 KiB of content at least, which hardly ever compress to so few bytes.
    """
    if pieces > _PIECES_MIN + size // _PIECE_SIZE_MIN:
        raise CorruptBatch(f"{codec.config_name} data is cut into too many pieces")


def _too_large(codec: Compression, max_size: int) -> TooLargeContent:
    return TooLargeContent(f"{codec.config_name} data holds more than the {max_size} bytes allowed")


def _truncated(codec: Compression) -> CorruptBatch:
    return CorruptBatch(f"{codec.config_name} data ends too early")


def _damaged(codec: Compression, error: object) -> CorruptBatch:
    return CorruptBatch(f"{codec.config_name} data is damaged: {error}")


# gzip

_GZIP_WBITS: Final = 31
_GZIP_MAGIC: Final = b"\x1f\x8b"
_GZIP_SIZE_SIZE: Final = 4  # of the number of bytes a member holds, at its end
# An empty member: header, two bytes of deflate, trailer. Java looks for no further member in fewer bytes.
_GZIP_MEMBER_SIZE_MIN: Final = 18
# zlib hands back what follows a member as a copy: fed in pieces, many small members do not copy all the rest each time.
_GZIP_FEED_SIZE: Final = 32 * 1024


def _decompress_gzip(data: Buffer, max_size: int) -> bytes:
    view = memoryview(data)
    parts: list[bytes] = []
    room = max_size
    position = 0
    pieces = 0
    while position == 0 or _another_gzip_member(view, position):
        pieces += _PIECES_OF_A_STREAM
        _check_pieces(Compression.GZIP, pieces, len(view))
        position, room = _decompress_gzip_member(view, position, room, parts)
        if room < 0:
            raise _too_large(Compression.GZIP, max_size)
    return b"".join(parts)


def _another_gzip_member(view: memoryview, position: int) -> bool:
    return len(view) - position >= _GZIP_MEMBER_SIZE_MIN and bytes(view[position : position + 2]) == _GZIP_MAGIC


def _decompress_gzip_member(view: memoryview, position: int, room: int, parts: list[bytes]) -> tuple[int, int]:
    """Append one member's content to `parts`; returns the position after it, and the remaining size (negative if it was
    exceeded).
    """
    inflater = zlib.decompressobj(_GZIP_WBITS)
    while not inflater.eof and room >= 0:
        if position >= len(view):
            raise _truncated(Compression.GZIP)
        piece = view[position : position + _GZIP_FEED_SIZE]
        try:
            part = inflater.decompress(piece, room + 1)
        except zlib.error as error:
            raise _damaged(Compression.GZIP, error) from None
        room -= len(part)
        position += len(piece)
        if part:
            parts.append(part)
    return position - len(inflater.unused_data), room


# snappy

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = Struct(">8sii")  # magic, version, lowest version that can read it
_XERIAL_VERSION: Final = 1
_XERIAL_LENGTH: Final = Struct(">i")
# A stream header where a block's length should be: its first four bytes, as the negative int they make.
_XERIAL_MAGIC_HEAD: Final[int] = _XERIAL_LENGTH.unpack_from(_XERIAL_MAGIC)[0]
_XERIAL_BLOCK_SIZE: Final = 32 * 1024


def _compress_snappy(data: Buffer) -> bytes:
    import cramjam

    view = memoryview(data)
    parts: list[bytes | cramjam.Buffer] = [_XERIAL_HEADER.pack(_XERIAL_MAGIC, _XERIAL_VERSION, _XERIAL_VERSION)]
    for start in range(0, len(view), _XERIAL_BLOCK_SIZE):
        block = cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_SIZE])
        parts += (_XERIAL_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: Buffer, max_size: int) -> bytes:
    import cramjam

    view = memoryview(data)
    blocks = list(_xerial_blocks(view)) if bytes(view[: len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC else [view]
    try:
        if sum(map(cramjam.snappy.decompress_raw_len, blocks)) > max_size:
            raise _too_large(Compression.SNAPPY, max_size)
        return b"".join(map(cramjam.snappy.decompress_raw, blocks))
    except cramjam.DecompressionError as error:
        raise _damaged(Compression.SNAPPY, error) from None


def _xerial_blocks(view: memoryview) -> Iterator[memoryview]:
    """The raw snappy blocks of one or more of snappy-java's streams."""
    position = pieces = 0
    # Fewer bytes than a length has are ignored at the end, as snappy-java does.
    while len(view) - position >= _XERIAL_LENGTH.size:
        pieces += 1
        _check_pieces(Compression.SNAPPY, pieces, len(view))
        length: int = _XERIAL_LENGTH.unpack_from(view, position)[0]
        if length == _XERIAL_MAGIC_HEAD:
            position = _skip_xerial_header(view, position)
            continue
        position += _XERIAL_LENGTH.size
        if not 0 < length <= len(view) - position:
            raise _damaged(Compression.SNAPPY, f"a block of {length} bytes where {len(view) - position} are left")
        yield view[position : position + length]
        position += length


def _skip_xerial_header(view: memoryview, position: int) -> int:
    if len(view) - position < _XERIAL_HEADER.size:
        raise _truncated(Compression.SNAPPY)
    magic, version, _ = _XERIAL_HEADER.unpack_from(view, position)
    # Some producers write the version little-endian, which reads as a very new one; snappy-java minds old ones only.
    if magic != _XERIAL_MAGIC or version < _XERIAL_VERSION:
        raise _damaged(Compression.SNAPPY, "not a header of snappy-java")
    return position + _XERIAL_HEADER.size


# lz4

# Kafka's default level names lz4's fast compressor, any other its high-compression one (KIP-390).
_LZ4_LEVEL_DEFAULT: Final = 9
_LZ4_LEVEL_FAST: Final = 0
_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_HEADER_SIZE_MIN: Final = 7
_LZ4_FLAGS_POSITION: Final = 4
_LZ4_INDEPENDENT_BLOCKS: Final = 0x20
# A byte of a compressed block adds at most 255 bytes of output, which it does in a match's length.
_LZ4_RATIO_MAX: Final = 255


def _compress_lz4(data: Buffer, level: int | None) -> bytes:
    import lz4.frame

    compressed: bytes = lz4.frame.compress(
        data,
        compression_level=_LZ4_LEVEL_FAST if level in (None, _LZ4_LEVEL_DEFAULT) else level,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return compressed


def _decompress_lz4(data: Buffer, max_size: int) -> bytes:
    import lz4.frame

    if len(data) < _LZ4_HEADER_SIZE_MIN:
        raise _truncated(Compression.LZ4)
    if not data[_LZ4_FLAGS_POSITION] & _LZ4_INDEPENDENT_BLOCKS:
        # We could read them, Java's consumers could not.
        raise _damaged(Compression.LZ4, "dependent blocks are not supported")
    decompressor = lz4.frame.LZ4FrameDecompressor()
    try:
        content: bytes = decompressor.decompress(data, min(max_size, len(data) * _LZ4_RATIO_MAX) + 1)
    except RuntimeError as error:
        raise _damaged(Compression.LZ4, error) from None
    if len(content) > max_size:
        raise _too_large(Compression.LZ4, max_size)
    if not decompressor.eof:
        raise _truncated(Compression.LZ4)
    return content


# zstd (RFC 8878)

_ZSTD_LEVEL_DEFAULT: Final = 3
_ZSTD_MAGIC: Final = 0xFD2FB528
_ZSTD_MAGIC_BYTES: Final = _ZSTD_MAGIC.to_bytes(4, "little")
_ZSTD_SKIPPABLE_MAGIC: Final = 0x184D2A50  # and the fifteen that follow it
_ZSTD_SKIPPABLE: Final = Struct("<II")  # magic, size of what follows
_ZSTD_BLOCK_HEADER_SIZE: Final = 3
_ZSTD_BLOCK_CONTENT_MAX: Final = 128 * 1024
_ZSTD_RAW_BLOCK, _ZSTD_RLE_BLOCK, _ZSTD_COMPRESSED_BLOCK = range(3)
_ZSTD_CHECKSUM_SIZE: Final = 4


def _decompress_zstd(data: Buffer, max_size: int) -> bytes:
    import zstandard

    view = memoryview(data)
    if not view:
        raise _truncated(Compression.ZSTD)
    parts: list[bytes] = []
    room = max_size
    decompressor = zstandard.ZstdDecompressor()
    try:
        for frame, content_size_max in _zstd_frames(view):
            content_size = zstandard.frame_content_size(frame)
            if content_size > room:
                raise _too_large(Compression.ZSTD, max_size)
            # One more than allowed tells too much content from damaged content.
            part = decompressor.decompress(frame, max_output_size=min(content_size_max, room) + 1)
            room -= len(part)
            if room < 0:
                raise _too_large(Compression.ZSTD, max_size)
            parts.append(part)
    except zstandard.ZstdError as error:
        raise _damaged(Compression.ZSTD, error) from None
    return b"".join(parts)


def _zstd_frames(view: memoryview) -> Iterator[tuple[memoryview, int]]:
    """Every frame, with a bound of its content's size that holds without trusting the frame's header.

    The library decompresses a frame in one bounded call when it is told where the frame ends and how much to expect.
    Most producers stream, and a streamed header says neither: so the blocks are counted here.
    """
    position = pieces = 0
    while position < len(view):
        rest = view[position:]
        size = _zstd_skippable_size(rest)
        pieces += _PIECES_OF_A_STREAM
        if size is None:
            size, content_size_max, blocks = _measure_zstd_frame(rest, len(view))
            pieces += blocks
            yield rest[:size], content_size_max
        _check_pieces(Compression.ZSTD, pieces, len(view))
        position += size
    if position > len(view):
        raise _truncated(Compression.ZSTD)


def _zstd_skippable_size(rest: memoryview) -> int | None:
    if len(rest) < _ZSTD_SKIPPABLE.size:
        raise _truncated(Compression.ZSTD)
    magic, size = _ZSTD_SKIPPABLE.unpack_from(rest)
    if magic & ~0xF == _ZSTD_SKIPPABLE_MAGIC:
        return _ZSTD_SKIPPABLE.size + int(size)
    if magic != _ZSTD_MAGIC:
        raise _damaged(Compression.ZSTD, "unknown frame")
    return None


def _measure_zstd_frame(rest: memoryview, whole_size: int) -> tuple[int, int, int]:
    """Size of the frame that `rest` begins with, the most its blocks can hold, and how many blocks there are."""
    import zstandard

    parameters = zstandard.get_frame_parameters(rest)
    position = zstandard.frame_header_size(rest)
    content_size_max = blocks = 0
    is_last = False
    while not is_last:
        blocks += 1
        _check_pieces(Compression.ZSTD, blocks, whole_size)
        following = position + _ZSTD_BLOCK_HEADER_SIZE
        if following > len(rest):
            raise _truncated(Compression.ZSTD)
        header = int.from_bytes(rest[position:following], "little")
        is_last, kind, size = header & 1 == 1, header >> 1 & 3, header >> 3
        content_size_max += _ZSTD_BLOCK_CONTENT_MAX if kind == _ZSTD_COMPRESSED_BLOCK else size
        position = following + (1 if kind == _ZSTD_RLE_BLOCK else size)
    position += _ZSTD_CHECKSUM_SIZE if parameters.has_checksum else 0
    if position > len(rest):
        raise _truncated(Compression.ZSTD)
    return position, content_size_max, blocks
