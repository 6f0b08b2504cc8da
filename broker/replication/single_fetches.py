"""Fetches of one partition within a session, and their responses, without the codec.

While records arrive one by one, a follower's requests differ in the session epoch and in the partition's position only.
These fields are filled into the bytes of an earlier request. Responses with data of one partition and nothing unusual
are read here. All others are left to the codec.
"""

from struct import Struct
from typing import Final, TypeAlias

from broker.client.payloads import encode_request
from broker.replication.fetch_plan import FETCH_VERSION, FetchSettings, PartitionKey, Position, named_partition
from broker.wire.api.fetch import FetchRequest, FetchTopic, PartitionData, ReplicaState
from broker.wire.errors import WireError
from broker.wire.varint import read_varint

_INT: Final = Struct(">i")
# The size of the frame, the API key and the version come before it.
_CORRELATION_ID_AT: Final = 8
# Leader epoch, fetch offset, last fetched epoch and log start offset, as they follow each other in a request.
_POSITION: Final = Struct(">iqiq")
# Values that occur nowhere else in a request, to find out where the codec puts a field.
_EPOCH: Final = 0x5A17E90C
_MARKED: Final = (0x5A17E90D, 0x5A17FE7C << 24, 0x5A171A57, 0x5A175247 << 24)
# A fetcher has a template per partition of its session; when there are more, all are removed.
_TEMPLATES_MAX: Final = 1_024

# The fields of a response after its correlation id: tagged fields, throttle time, error, session id, number of topics,
# topic id, number of partitions, index, error, high watermark, last stable offset, log start offset, number of aborted
# transactions, preferred read replica. Numbers of elements are encoded plus 1, as 0 stands for null.
_RESPONSE: Final = Struct(">BihiB16sBihqqqBi")
_RESPONSE_AT: Final = 4
_RECORDS_AT: Final = _RESPONSE_AT + _RESPONSE.size
_NO_ELEMENT: Final = 1
_ONE_ELEMENT: Final = 2
# No tagged fields of the partition, the topic and the response.
_TAIL: Final = b"\0\0\0"

# The frame of a request, with the positions of the session epoch and of the partition's position in it.
_Template: TypeAlias = tuple[bytes, int, int]


class SingleFetches:
    """Encodes the fetches of one partition that a fetcher sends."""

    def __init__(self, settings: FetchSettings, client_id: str) -> None:
        self._settings = settings
        self._client_id = client_id
        self._named = (0, 0)  # the session and the broker epoch in the templates
        self._templates: dict[PartitionKey, _Template | None] = {}  # None until the second fetch of a partition

    def frame(
        self,
        session_id: int,
        session_epoch: int,
        key: PartitionKey,
        position: Position,
        *,
        broker_epoch: int,
        correlation_id: int,
    ) -> bytes:
        """The frame of a request within a session for one partition. `broker_epoch` is the follower's own."""
        templates = self._templates
        if self._named != (session_id, broker_epoch) or len(templates) > _TEMPLATES_MAX:
            self._named = (session_id, broker_epoch)
            templates.clear()
        template = templates.get(key)
        if template is None:
            template = templates[key] = self._template(key) if key in templates else None
        if template is None:
            return self._encode(session_epoch, key, position, correlation_id)
        made, epoch_at, position_at = template
        frame = bytearray(made)
        _INT.pack_into(frame, _CORRELATION_ID_AT, correlation_id)
        _INT.pack_into(frame, epoch_at, session_epoch)
        offset, start = position.offset, position.log_start_offset
        _POSITION.pack_into(frame, position_at, position.leader_epoch, offset, position.last_epoch, start)
        return bytes(frame)

    def _template(self, key: PartitionKey) -> _Template | None:
        """None if a field cannot be found, as its bytes occur twice."""
        frame = self._encode(_EPOCH, key, Position(*_MARKED), 0)
        epoch, position = _INT.pack(_EPOCH), _POSITION.pack(*_MARKED)
        if frame.count(epoch) != 1 or frame.count(position) != 1:
            return None
        return frame, frame.index(epoch), frame.index(position)

    def _encode(self, session_epoch: int, key: PartitionKey, position: Position, correlation_id: int) -> bytes:
        settings, (session_id, broker_epoch) = self._settings, self._named
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=settings.replica_id, replica_epoch=broker_epoch),
            max_wait_ms=settings.max_wait_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.max_bytes,
            session_id=session_id,
            session_epoch=session_epoch,
            topics=[FetchTopic(topic_id=key[0], partitions=[named_partition(key, position, settings)])],
        )
        payload = encode_request(request, FETCH_VERSION, self._client_id)
        frame = bytearray(_INT.pack(len(payload)) + payload)
        _INT.pack_into(frame, _CORRELATION_ID_AT, correlation_id)
        return bytes(frame)


def single_response(payload: memoryview) -> tuple[int, PartitionKey, PartitionData] | None:
    """The session id, the partition and its data, if the response has data of one partition and nothing unusual."""
    if len(payload) <= _RECORDS_AT:
        return None
    fields = _RESPONSE.unpack_from(payload, _RESPONSE_AT)
    tagged, _, error, session_id, topics, topic_id, partitions, index, refusal = fields[:9]
    high_watermark, last_stable_offset, log_start_offset, aborted, read_replica = fields[9:]
    if tagged or error or refusal or topics != _ONE_ELEMENT or partitions != _ONE_ELEMENT or aborted > _NO_ELEMENT:
        return None
    try:
        size, at = read_varint(payload, _RECORDS_AT)
    except (IndexError, WireError):
        return None
    end = at + size - 1
    if not size or len(payload) != end + len(_TAIL) or bytes(payload[end:]) != _TAIL:
        return None
    data = PartitionData(
        partition_index=index,
        high_watermark=high_watermark,
        last_stable_offset=last_stable_offset,
        log_start_offset=log_start_offset,
        aborted_transactions=[] if aborted else None,
        preferred_read_replica=read_replica,
        records=payload[at:end],
    )
    return session_id, (topic_id, index), data
