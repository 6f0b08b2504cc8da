"""DeleteShareGroupOffsets (key 92): remove topics from a share group without members (KIP-932).

Flexible from 0.
"""

from broker.wire.schema import field, request, response, struct
from broker.wire.uuids import ZERO_UUID


@struct
class DeleteShareGroupOffsetsRequestTopic:
    topic_name: str = field("string", "0+", default="")


@request(key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsRequest:
    group_id: str = field("string", "0+", default="")
    topics: list[DeleteShareGroupOffsetsRequestTopic] = field([DeleteShareGroupOffsetsRequestTopic], "0+", factory=list)


@struct
class DeleteShareGroupOffsetsResponseTopic:
    topic_name: str = field("string", "0+", default="")
    topic_id: bytes = field("uuid", "0+", default=ZERO_UUID)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")


@response(key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")
    responses: list[DeleteShareGroupOffsetsResponseTopic] = field(
        [DeleteShareGroupOffsetsResponseTopic], "0+", factory=list
    )
