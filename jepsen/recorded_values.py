"""The values of operations that only the recorders of applications write (`jepsen.testing.histories`)."""

import attrs


@attrs.frozen
class Seek:
    """`seek`: an application sets its position in a partition; -1 if it does not say to which offset."""

    topic: str
    partition: int
    offset: int


@attrs.frozen
class Processing:
    """`process`: an application works on a record that `group` has received. `OK` means that the work is done."""

    group: str
    topic: str
    partition: int
    offset: int


@attrs.frozen
class Scan:
    """`scan`: a read of all committed records from offset `start` to below `stop`, a part of a read of the partition.

    `log_end` is the high watermark when the read began. Offsets from `stop` on belong to later scans, or to open
    transactions. The result has (offset, value) for each record.
    """

    topic: str
    partition: int
    start: int
    stop: int
    log_end: int


@attrs.frozen
class Unrecorded:
    """`unrecorded`: a client's method whose records the recorder does not see."""

    method: str
