"""DescribeLogDirs (key 35): the log directories of a broker and the partitions in them (KIP-113).

Flexible from 2. Notable versions:
    3  an error code for the whole response
    4  sizes of the volumes (KIP-827)
    5  whether a directory is cordoned (KIP-1066)
"""

from broker.wire.schema import field, request, response, struct


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
class DescribeLogDirsResult:
    error_code: int = field("int16", "0+", default=0)
    log_dir: str = field("string", "0+", default="")
    topics: list[DescribeLogDirsTopic] = field([DescribeLogDirsTopic], "0+", factory=list)
    total_bytes: int = field("int64", "4+", default=-1)
    usable_bytes: int = field("int64", "4+", default=-1)
    is_cordoned: bool = field("bool", "5+", default=False)


@response(key=35, versions="1-5", flexible="2+")
class DescribeLogDirsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "3+", default=0)
    results: list[DescribeLogDirsResult] = field([DescribeLogDirsResult], "0+", factory=list)
