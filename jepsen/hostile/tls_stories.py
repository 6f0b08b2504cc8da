"""The conversations with a port of TLS: openings that complete no handshake, and sessions with damaged records.

A real client of TLS encrypts a session, so its bytes differ from run to run. Its requests and its damage do not.
"""

import enum
from collections.abc import Sequence
from random import Random
from typing import Final, TypeAlias

import attrs

from jepsen.hostile.frames import Frame
from jepsen.hostile.story import StoryTools
from jepsen.hostile.target import Target
from jepsen.hostile.tls_records import hostile_opening

_CONVERSATIONS: Final = 4
# The first writes of a client: its ClientHello, the end of its handshake, and requests.
_DAMAGED_WRITES: Final = (0, 1, 2, 2, 3, 4)
_PIECES: Final = (None, None, 1, 3, 5, 100)


class Damage(enum.Enum):
    """How one write of a client arrives: with a flipped bit, without its last byte, or twice."""

    FLIPPED = enum.auto()
    CUT = enum.auto()
    REPEATED = enum.auto()


@attrs.frozen
class Opening:
    """The writes of a client that completes no handshake."""

    writes: Sequence[bytes]


@attrs.frozen
class Session:
    """A client of TLS 1.2 or 1.3 whose writes arrive in pieces of `piece_bytes`. It sends `windows` of frames.

    If the write `damaged_write` is reached, `damage` is done to it. The window of a damaged write is one ping, `last`.
    No server may answer it, or anything after it, unless the damage is that the write arrives twice.
    """

    is_newest: bool
    piece_bytes: int | None
    windows: Sequence[Sequence[Frame]]
    damage: Damage | None
    damaged_write: int
    last: Frame


TlsConversation: TypeAlias = Opening | Session


def tls_story(rng: Random, target: Target) -> list[TlsConversation]:
    """The conversations of a random story, each over a connection of its own."""
    tools = StoryTools(rng, target, target.broker_apis)
    return [_session(tools) if rng.random() < 0.4 else Opening(hostile_opening(rng)) for _ in range(_CONVERSATIONS)]


def _session(tools: StoryTools) -> Session:
    rng = tools.rng
    damage, damaged_write = rng.choice((None, *Damage)), rng.choice(_DAMAGED_WRITES)
    # The client has made two writes when its handshake is complete.
    count = rng.randint(1, 4) if damage is None else max(0, damaged_write - 2)
    windows = [[_decodable(tools) for _ in range(rng.randint(1, 5))] for _ in range(count)]
    return Session(rng.random() < 0.6, rng.choice(_PIECES), windows, damage, damaged_write, tools.ping())


def _decodable(tools: StoryTools) -> Frame:
    frame = tools.any_frame()
    return frame if frame.is_decodable else tools.ping()
