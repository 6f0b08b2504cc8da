"""DescribeLogDirs (key 35): the log directories of a broker and the partitions in them (KIP-113).

Flexible from 2. Notable versions:
    3  an error code for the whole response
    4  sizes of the volumes (KIP-827)
    5  whether a directory is cordoned (KIP-1066)

The tagged fields `damage`, `unrepaired_files` and `clock_ms` are not Kafka's: their numbers are far above those of
Kafka. Other clients skip them.
"""

from typing import Final

from broker.wire.schema import field, request, response, struct

DAMAGE_TAG: Final = 10_000
UNREPAIRED_FILES_TAG: Final = 10_001
CLOCK_TAG: Final = 10_002


@struct
class DescribableLogDirTopic:
    topic: str = field("string", "0+", default="")
    partitions: list[int] = field(["int32"], "0+", factory=list)


@request(key=35, versions="1-5", flexible="2+")
class DescribeLogDirsRequest:
    """`topics` is None for all."""

    topics: list[DescribableLogDirTopic] | None = field([DescribableLogDirTopic], "0+", factory=list, nullable="0+")


@struct
class DescribeLogDirsPartition:
    partition_index: int = field("int32", "0+", default=0)
    partition_size: int = field("int64", "0+", default=0)
    offset_lag: int = field("int64", "0+", default=0)
    is_future_key: bool = field("bool", "0+", default=False)


@struct
class DescribeLogDirsTopic:
    name: str = field("string", "0+", default="")
    partitions: list[DescribeLogDirsPartition] = field([DescribeLogDirsPartition], "0+", factory=list)


@struct
class DescribeLogDirsDamage:
    """Damage in the log of a replica that is not repaired yet; `remedy` says what repairs it."""

    topic: str = field("string", "2+", default="")
    partition_index: int = field("int32", "2+", default=0)
    first_offset: int = field("int64", "2+", default=0)
    end_offset: int = field("int64", "2+", default=0)
    path: str = field("string", "2+", default="")
    cause: str = field("string", "2+", default="")
    remedy: str = field("string", "2+", default="")


@struct
class DescribeLogDirsFile:
    """A damaged file of the metadata log that is not repaired yet; `problem` says what is wrong."""

    path: str = field("string", "2+", default="")
    problem: str = field("string", "2+", default="")


@struct
class DescribeLogDirsResult:
    error_code: int = field("int16", "0+", default=0)
    log_dir: str = field("string", "0+", default="")
    topics: list[DescribeLogDirsTopic] = field([DescribeLogDirsTopic], "0+", factory=list)
    total_bytes: int = field("int64", "4+", default=-1)
    usable_bytes: int = field("int64", "4+", default=-1)
    is_cordoned: bool = field("bool", "5+", default=False)
    damage: list[DescribeLogDirsDamage] = field(
        [DescribeLogDirsDamage], "2+", factory=list, tag=DAMAGE_TAG, tagged="2+"
    )
    unrepaired_files: list[DescribeLogDirsFile] = field(
        [DescribeLogDirsFile], "2+", factory=list, tag=UNREPAIRED_FILES_TAG, tagged="2+"
    )
    clock_ms: int = field("int64", "2+", default=-1, tag=CLOCK_TAG, tagged="2+")


@response(key=35, versions="1-5", flexible="2+")
class DescribeLogDirsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "3+", default=0)
    results: list[DescribeLogDirsResult] = field([DescribeLogDirsResult], "0+", factory=list)
