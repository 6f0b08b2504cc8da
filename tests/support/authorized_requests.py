"""The requests of the authorization table: valid ones of every API, in several versions."""

from collections.abc import Iterable
from typing import Any, Final

from broker.wire.api import APIS
from broker.wire.api.find_coordinator import FindCoordinatorRequest
from broker.wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from broker.wire.codec import decode
from broker.wire.header import parse_request_header
from tests.support.requests import create_topic
from tests.support.share_requests import joined, share_heartbeat
from tests.support.valid_group_requests import GROUP, SHARE_GROUP
from tests.support.valid_requests import controller_frames, frames
from tests.support.wire_client import WireClient

TOPIC_NAME: Final = "topic"


def requests_by_api(made: Iterable[bytes]) -> dict[str, list[tuple[Any, int]]]:
    """The decoded requests of frames with their versions, by the names of their APIs."""
    found: dict[str, list[tuple[Any, int]]] = {}
    for frame in made:
        key, version, _, _, position = parse_request_header(frame[4:])
        request, _ = decode(APIS[key].request, version, frame[4:], position)
        found.setdefault(APIS[key].name, []).append((request, version))
    return found


REQUESTS: Final = requests_by_api(frames(TOPIC_NAME))
CONTROLLER_REQUESTS: Final = requests_by_api(controller_frames(TOPIC_NAME))


async def create_resources(admin: WireClient) -> None:
    """Create the topic and the groups of the requests, and the topics of the coordinators."""
    await create_topic(admin, TOPIC_NAME)
    for key_type in (0, 1):
        await admin.call(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["any"]), 4)
    offset = OffsetCommitRequestTopic(name=TOPIC_NAME, partitions=[OffsetCommitRequestPartition()])
    await admin.call(OffsetCommitRequest(group_id=GROUP, topics=[offset]), 8)
    await joined(admin, TOPIC_NAME, group=SHARE_GROUP)
    await share_heartbeat(admin, -1, group=SHARE_GROUP)
