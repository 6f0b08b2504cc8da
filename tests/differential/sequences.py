"""The parts of a family: steps, and what one server has given to a sequence so far."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import Any, ClassVar, Protocol

import attrs

from broker.wire.errors import ErrorCode
from tests.differential.comparable import Labels, comparable

Call = Callable[[Any, int], Awaitable[Any]]


@attrs.define(eq=False)
class Place:
    """One server's side of a sequence.

    `name` begins all names of the sequence, and is the same on both servers. `topic_ids` are those of the topics that
    were created for the sequence, by name. `state` belongs to the family: what the server's responses have given so
    far.
    """

    name: str
    topic_ids: Mapping[str, bytes]
    state: Any
    labels: Labels = attrs.field(factory=Labels)

    def __attrs_post_init__(self) -> None:
        """The given topics have the first labels, in the order of their names."""
        for _, topic_id in sorted(self.topic_ids.items()):
            self.labels.label("T", topic_id)

    def named(self, suffix: str) -> str:
        """A name of this sequence; an empty one stays empty, because that is a case of its own."""
        return f"{self.name}-{suffix}" if suffix else ""


@attrs.frozen(kw_only=True)
class Step:
    """One request of a sequence. It has no ids of a server: `request` takes them from the place.

    `client` is the number of the connection. Before a step with `is_paused`, work of the server that goes on after a
    response has ended (see `Family.settle`), and the first response counts. Other steps are sent at once, and again
    while the response asks for it.
    """

    client: int = 0
    is_paused: bool = True

    # False for a request whose response may have to wait for other steps: it is taken before the client's next step.
    is_awaited: ClassVar[bool] = True

    def request(self, place: Place) -> tuple[Any, int]:
        """The message and its version."""
        raise NotImplementedError

    def observe(self, place: Place, response: Any) -> None:
        """Keeps what later steps need of a response."""

    def comparable(self, place: Place, response: Any) -> Any:
        """The part of the response that has to be the same on both servers."""
        return comparable(response, place.labels)

    def __str__(self) -> str:
        fields = [each for each in attrs.fields(type(self)) if each.name not in ("client", "is_paused")]
        given = [f"{each.name}={value!r}" for each in fields if (value := getattr(self, each.name)) != each.default]
        client = f" client={self.client}" if self.client else ""
        return f"{type(self).__name__}({', '.join(given)}){client}{'' if self.is_paused else ' at once'}"


class Family(Protocol):
    """A family of APIs: how its sequences are made, and what they need."""

    name: str
    # The topics of each sequence: suffix of the name, and number of partitions.
    topics: Mapping[str, int]
    # The errors after which a client only has to send its request again.
    passing: frozenset[ErrorCode]

    def generate(self, random: Random) -> Sequence[Step]:
        """The steps of a sequence."""

    def new_state(self) -> Any:
        """The state of a place before the first step."""

    async def prepare(self, call: Call) -> None:
        """Waits until a server that has just started can serve the family."""

    async def settle(self, place: Place, call: Call) -> None:
        """Waits until the server has done what its last responses left to do."""
