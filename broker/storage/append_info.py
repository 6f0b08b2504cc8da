"""What an append comes to."""

import attrs


@attrs.define
class AppendInfo:
    """Where an appended batch is. `log_append_time_ms` is -1 where producers set the timestamps.

    A `duplicate` was appended before, and this says where; nothing is staged for it.
    """

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool = False
