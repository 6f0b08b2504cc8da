"""Encodes messages as msgpack: `[correlation id, class number, [field, ...]]`. Fields that are objects are arrays.

The decoder follows the declarations of the classes (`kraft.bounds`), which bound the depth. It checks the length of an
array before it reads the elements, and rejects maps, extension types and undeclared arrays. A decoded message takes at
most a small multiple of its encoded size in memory.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Final, TypeAlias, TypeVar, Union, get_args, get_origin

import attrs
import msgpack

from kraft.bounds import IsBoolean, Range
from kraft.core import messages
from kraft.core.messages import Request, Response
from kraft.msgpack_reading import MalformedMessage, Reading, scalar_reader

C = TypeVar("C")

# Class numbers on the wire, which never change. AddVoter and RemoveVoter are requests of Kafka's protocol (KIP-853).
REQUESTS: Final[Mapping[int, type[Any]]] = {
    1: messages.VoteRequest,
    2: messages.BeginEpochRequest,
    3: messages.EndEpochRequest,
    4: messages.FetchRequest,
    5: messages.FetchSnapshotRequest,
    6: messages.UpdateVoterRequest,
}
# A response has the class number of its request.
RESPONSES: Final[Mapping[int, type[Any]]] = {
    1: messages.VoteResponse,
    2: messages.BeginEpochResponse,
    3: messages.EndEpochResponse,
    4: messages.FetchResponse,
    5: messages.FetchSnapshotResponse,
    6: messages.VoterChangeResponse,
}
_NUMBERS: Final = {cls: number for classes in (REQUESTS, RESPONSES) for number, cls in classes.items()}
_CORRELATION_IDS: Final = Range(0, 2**63 - 1)


def encode_request(correlation_id: int, request: Request) -> bytes:
    return _encode_numbered(correlation_id, request)


def encode_response(correlation_id: int, response: Response) -> bytes:
    return _encode_numbered(correlation_id, response)


def encode(message: object) -> bytes:
    """Encode an attrs object as the array of its fields."""
    packed: bytes = msgpack.packb(message, default=_fields_of)
    return packed


def decode_request(data: bytes) -> tuple[int, Request]:
    """Return the correlation id and the request. Raises MalformedMessage."""
    numbered: tuple[int, Request] = Reading(data).complete(_REQUEST_READER)
    return numbered


def decode_response(data: bytes) -> tuple[int, Response]:
    """Return the correlation id and the response. Raises MalformedMessage."""
    numbered: tuple[int, Response] = Reading(data).complete(_RESPONSE_READER)
    return numbered


def _encode_numbered(correlation_id: int, message: object) -> bytes:
    return encode((correlation_id, _NUMBERS[type(message)], message))


_Reader: TypeAlias = Callable[[Reading], Any]


def decoder(cls: type[C]) -> Callable[[bytes], C]:
    """Return the decoder of objects of `cls`, which raises MalformedMessage."""
    read = _object_reader(cls)

    def decode(data: bytes) -> C:
        value: C = Reading(data).complete(read)
        return value

    return decode


def _object_reader(cls: type[Any]) -> _Reader:
    readers = tuple(_field_reader(field.type, f"{cls.__name__}.{field.name}") for field in attrs.fields(cls))
    count = len(readers)

    def read(reading: Reading) -> Any:
        reading.array_of(count)
        return cls(*[reader(reading) for reader in readers])

    return read


def _numbered_reader(classes: Mapping[int, type[Any]]) -> _Reader:
    readers: dict[int, _Reader] = {}

    def read(reading: Reading) -> tuple[int, Any]:
        reading.array_of(3)
        correlation_id, number = reading.scalar(), reading.scalar()
        if type(correlation_id) is not int or not _CORRELATION_IDS.allows(correlation_id):
            raise MalformedMessage(f"{correlation_id!r:.50} is not a valid correlation id")
        if type(number) is not int or number not in classes:
            raise MalformedMessage(f"no class has number {number!r:.50}")
        if number not in readers:
            readers[number] = _object_reader(classes[number])
        return correlation_id, readers[number](reading)

    return read


def _field_reader(hint: Any, name: str) -> _Reader:
    """Return the reader of a field declared as `hint`. Raises TypeError for a declaration without bounds."""
    if get_origin(hint) is Annotated:
        inner, bound = get_args(hint)
        if get_origin(inner) is tuple:
            return _tuple_reader(_field_reader(get_args(inner)[0], name), bound.maximum)
        return scalar_reader(bound, name)
    if get_origin(hint) in (Union, UnionType):
        (inner,) = [each for each in get_args(hint) if each is not NoneType]
        return _optional_reader(_field_reader(inner, name))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _enum_reader(hint)
    if hint is bool:
        return scalar_reader(IsBoolean(), name)
    if isinstance(hint, type) and attrs.has(hint):
        return _object_reader(hint)
    raise TypeError(f"{name} is declared without bounds: {hint}")


def _tuple_reader(read_element: _Reader, count_max: int) -> _Reader:
    def read(reading: Reading) -> tuple[Any, ...]:
        return tuple([read_element(reading) for _ in range(reading.array(count_max))])

    return read


def _optional_reader(read_value: _Reader) -> _Reader:
    def read(reading: Reading) -> Any:
        return None if reading.nil() else read_value(reading)

    return read


def _enum_reader(enum: type[Enum]) -> _Reader:
    def read(reading: Reading) -> Enum:
        return enum(reading.scalar())

    return read


def _fields_of(value: Any) -> list[Any]:
    return [getattr(value, field.name) for field in attrs.fields(type(value))]


_REQUEST_READER: Final = _numbered_reader(REQUESTS)
_RESPONSE_READER: Final = _numbered_reader(RESPONSES)
