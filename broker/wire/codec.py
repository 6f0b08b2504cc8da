"""Encode and decode messages; the functions that do it are compiled when a version is first used."""

from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias, TypeVar

from broker.wire.compile_decode import REQUEST_ELEMENTS_MAX, RESPONSE_ELEMENTS_MAX, compile_decoder
from broker.wire.compile_encode import compile_encoder
from broker.wire.errors import WireError
from broker.wire.schema import Buffer, Message

M = TypeVar("M", bound=Message)

# decode(buffer, start=0, end=None) -> (message, where it ended). Records are views of the buffer.
Decoder: TypeAlias = Callable[..., tuple[Any, int]]
# encode(message) -> the body's parts: buffers, and the records of the message as they were given.
Encoder: TypeAlias = Callable[[Any], list[Any]]


@cache
def decoder(cls: type[Message], version: int) -> Decoder:
    """The compiled `decode(buffer, start=0, end=None)` of one version, for paths that cannot spare the look-up.

    It raises WireError, and nothing else, for bytes that are no such message; bytes after the message are left alone.
    Raises WireError itself for a version that does not exist.
    """
    spec = cls.__message__
    compiled: Decoder = compile_decoder(
        cls,
        version,
        flexible=_is_flexible(cls, version),
        elements_max=REQUEST_ELEMENTS_MAX if spec.is_request else RESPONSE_ELEMENTS_MAX,
        file=f"{cls.__name__} v{version}",
    )
    return compiled


@cache
def encoder(cls: type[Message], version: int) -> Encoder:
    """The compiled `encode(message)` of one version. Raises WireError for a version that does not exist."""
    compiled: Encoder = compile_encoder(
        cls, version, flexible=_is_flexible(cls, version), file=f"{cls.__name__} v{version}"
    )
    return compiled


def decode(cls: type[M], version: int, buffer: Buffer, start: int = 0, end: int | None = None) -> tuple[M, int]:
    """The message at `start`, and the position after it. Raises WireError."""
    return decoder(cls, version)(buffer, start, end)


def encode(message: Message, version: int) -> list[Any]:
    """The parts of the message's body; fields that `version` does not have are left out. Raises WireError."""
    return encoder(type(message), version)(message)


def _is_flexible(cls: type[Message], version: int) -> bool:
    spec = cls.__message__
    if version not in spec.versions:
        raise WireError(f"{cls.__name__} has no version {version}")
    return version in spec.flexible
