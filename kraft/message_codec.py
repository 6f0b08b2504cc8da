"""Messages as msgpack. A class is an extension type with the number of its place in `_CLASSES`, its fields an array.

Whatever comes in is checked field by field against the class, so that nothing of a wrong type gets near the core.
"""

from enum import Enum
from typing import Any, get_args, get_origin

import attrs
import msgpack

from kraft.core import messages
from kraft.core.log_shape import OffsetAndEpoch
from kraft.core.messages import Known, Request, Response
from kraft.core.voters import ReplicaKey, Voter
from kraft.replicated_log import Batch

# Numbers on the wire: only ever append.
_CLASSES: tuple[type[Any], ...] = (
    OffsetAndEpoch,
    ReplicaKey,
    Voter,
    Known,
    Batch,
    messages.VoteRequest,
    messages.VoteResponse,
    messages.BeginEpochRequest,
    messages.BeginEpochResponse,
    messages.EndEpochRequest,
    messages.EndEpochResponse,
    messages.FetchRequest,
    messages.FetchResponse,
    messages.FetchSnapshotRequest,
    messages.FetchSnapshotResponse,
    messages.AddVoterRequest,
    messages.RemoveVoterRequest,
    messages.UpdateVoterRequest,
    messages.VoterChangeResponse,
)
_NUMBERS = {cls: number for number, cls in enumerate(_CLASSES)}


class MalformedMessage(ValueError):
    """These bytes are no message."""


def encode(message: object) -> bytes:
    """`message`: anything of the classes above, or made of plain values and these."""
    packed: bytes = msgpack.packb(message, default=_pack)
    return packed


def decode(data: bytes | memoryview) -> object:
    """Raises MalformedMessage."""
    try:
        return msgpack.unpackb(data, ext_hook=_unpack, use_list=False, strict_map_key=True)
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
        raise MalformedMessage(str(error)) from error


def decode_request(data: bytes | memoryview) -> tuple[int, Request]:
    """A correlation id and what it is for. Raises MalformedMessage."""
    match decode(data):
        case (int(correlation_id), message) if isinstance(message, Request):
            return correlation_id, message
    raise MalformedMessage("not a request")


def decode_response(data: bytes | memoryview) -> tuple[int, Response]:
    """A correlation id and what belongs to it. Raises MalformedMessage."""
    match decode(data):
        case (int(correlation_id), message) if isinstance(message, Response):
            return correlation_id, message
    raise MalformedMessage("not a response")


def _pack(value: Any) -> msgpack.ExtType:
    fields = [getattr(value, field.name) for field in attrs.fields(type(value))]
    return msgpack.ExtType(_NUMBERS[type(value)], encode(fields))


def _unpack(number: int, data: bytes) -> object:
    if not 0 <= number < len(_CLASSES):
        raise MalformedMessage(f"no class has number {number}")
    cls = _CLASSES[number]
    fields = attrs.fields(cls)
    values = decode(data)
    if not isinstance(values, tuple) or len(values) != len(fields):
        raise MalformedMessage(f"{cls.__name__} has {len(fields)} fields")
    converted = [_converted(value, field.type) for value, field in zip(values, fields, strict=True)]
    for value, field in zip(converted, fields, strict=True):
        if not _fits(value, field.type):
            raise MalformedMessage(f"{value!r:.50} as {field.name} of {cls.__name__}")
    return cls(*converted)


def _converted(value: object, hint: Any) -> object:
    return hint(value) if isinstance(hint, type) and issubclass(hint, Enum) else value


def _fits(value: object, hint: Any) -> bool:
    if get_origin(hint) is tuple:
        element = get_args(hint)[0]
        return isinstance(value, tuple) and all(_fits(each, element) for each in value)
    return isinstance(value, hint)
