"""DeleteTopics (key 20): delete topics.

Flexible from 4. Notable versions:
    5  error messages; may answer THROTTLING_QUOTA_EXCEEDED (KIP-599)
    6  topics by name or id, as structs (KIP-516)
"""

from broker.wire.schema import field, request, response, struct
from broker.wire.uuids import ZERO_UUID


@struct
class DeleteTopicState:
    name: str | None = field("string", "6+", default=None, nullable="6+")
    topic_id: bytes = field("uuid", "6+", default=ZERO_UUID)


@request(key=20, versions="1-6", flexible="4+")
class DeleteTopicsRequest:
    """`topic_names` until version 5, `topics` from 6 on."""

    topics: list[DeleteTopicState] = field([DeleteTopicState], "6+", factory=list)
    topic_names: list[str] = field(["string"], "0-5", factory=list)
    timeout_ms: int = field("int32", "0+", default=0)


@struct
class DeletableTopicResult:
    name: str | None = field("string", "0+", default="", nullable="6+")
    topic_id: bytes = field("uuid", "6+", default=ZERO_UUID)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "5+", default=None, nullable="5+")


@response(key=20, versions="1-6", flexible="4+")
class DeleteTopicsResponse:
    throttle_time_ms: int = field("int32", "1+", default=0)
    responses: list[DeletableTopicResult] = field([DeletableTopicResult], "0+", factory=list)
