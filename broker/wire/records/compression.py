"""The five compressions of record batches, in the framings that Java's clients write and read."""

from enum import IntEnum


class Compression(IntEnum):
    """Kafka's compression types; the value is the code in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4
