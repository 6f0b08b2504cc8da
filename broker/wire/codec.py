"""Encode and decode messages; the functions that do it are compiled when a version is first used."""

from collections.abc import Callable, Generator
from functools import cache
from typing import Any, TypeAlias, TypeVar

from broker.wire.compile_decode import REQUEST_ELEMENTS_MAX, RESPONSE_ELEMENTS_MAX, compile_decoder
from broker.wire.compile_encode import compile_encoder
from broker.wire.errors import WireError
from broker.wire.schema import Buffer, Message, Struct

M = TypeVar("M", bound=Message)

# decode(buffer, start=0, end=None) -> (message, where it ended). Records are views of the buffer.
Decoder: TypeAlias = Callable[..., tuple[Any, int]]
# encode(message) -> the body's parts: buffers, and the records of the message as they were given.
Encoder: TypeAlias = Callable[[Any], list[Any]]
# The same step by step: generators that yield between steps of some 100 us, for messages that take milliseconds.
SlicedDecoder: TypeAlias = Callable[..., Generator[None, None, tuple[Any, int]]]
SlicedEncoder: TypeAlias = Callable[[Any], Generator[None, None, list[Any]]]


@cache
def decoder(cls: type[Message], version: int) -> Decoder:
    """The compiled `decode(buffer, start=0, end=None)` of one version, for paths that cannot spare the look-up.

    It raises WireError, and nothing else, for bytes that are no such message; bytes after the message are left alone.
    Raises WireError itself for a version that does not exist.
    """
    compiled: Decoder = _decoder(cls, version, sliced=False)
    return compiled


@cache
def sliced_decoder(cls: type[Message], version: int) -> SlicedDecoder:
    """Like `decoder`, as a generator that decodes in slices. Raises WireError for a version that does not exist."""
    compiled: SlicedDecoder = _decoder(cls, version, sliced=True)
    return compiled


@cache
def encoder(cls: type[Message], version: int) -> Encoder:
    """The compiled `encode(message)` of one version. Raises WireError for a version that does not exist."""
    compiled: Encoder = _encoder(cls, version, sliced=False)
    return compiled


@cache
def sliced_encoder(cls: type[Message], version: int) -> SlicedEncoder:
    """Like `encoder`, as a generator that encodes in slices. Raises WireError for a version that does not exist."""
    compiled: SlicedEncoder = _encoder(cls, version, sliced=True)
    return compiled


@cache
def element_encoder(cls: type[Struct], version: int, message: type[Message]) -> SlicedEncoder:
    """The compiled `encode(struct)` of a part of a message, step by step, for the elements of an `EncodedArray`."""
    flexible = _is_flexible(message, version)
    compiled: SlicedEncoder = compile_encoder(
        cls, version, flexible=flexible, file=f"{cls.__name__} v{version}", sliced=True
    )
    return compiled


def decode(cls: type[M], version: int, buffer: Buffer, start: int = 0, end: int | None = None) -> tuple[M, int]:
    """The message at `start`, and the position after it. Raises WireError."""
    return decoder(cls, version)(buffer, start, end)


def encode(message: Message, version: int) -> list[Any]:
    """The parts of the message's body; fields that `version` does not have are left out. Raises WireError."""
    return encoder(type(message), version)(message)


def _decoder(cls: type[Message], version: int, *, sliced: bool) -> Any:
    return compile_decoder(
        cls,
        version,
        flexible=_is_flexible(cls, version),
        elements_max=cls.__message__.elements_max
        or (REQUEST_ELEMENTS_MAX if cls.__message__.is_request else RESPONSE_ELEMENTS_MAX),
        file=f"{cls.__name__} v{version}",
        sliced=sliced,
    )


def _encoder(cls: type[Message], version: int, *, sliced: bool) -> Any:
    flexible = _is_flexible(cls, version)
    return compile_encoder(cls, version, flexible=flexible, file=f"{cls.__name__} v{version}", sliced=sliced)


def _is_flexible(cls: type[Message], version: int) -> bool:
    spec = cls.__message__
    if version not in spec.versions:
        raise WireError(f"{cls.__name__} has no version {version}")
    return version in spec.flexible
