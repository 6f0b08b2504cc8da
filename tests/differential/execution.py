"""Runs the steps of a sequence on one server."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any, Final

import attrs
import trio

from broker.wire.api.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from broker.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.differential.comparable import error_name
from tests.differential.sequences import Family, Place, Step
from tests.support.wire_client import WireClient

# The outcomes of a step without a response.
CLOSED: Final = "the connection was closed"
SILENCE: Final = "no response"
WAITING: Final = "no response yet"
STILL_WAITING: Final = "not sent, because the client waits for a response"

# A passing error is accepted as an outcome after this time.
_PASSING_S: Final = 5
_RETRY_PAUSE_S: Final = 0.005
# A response that a server has sent before other responses is here within this time.
_ARRIVAL_S: Final = 0.3
# The longest wait for the leaders of new topics.
_LEADERS_S: Final = 30
# The records of steps have fixed times, which are long ago.
_KEEPS_ALL: Final = CreatableTopicConfig(name="retention.ms", value="-1")
_CREATE_TOPICS_VERSION: Final = 7
_DELETE_TOPICS_VERSION: Final = 6
_LIST_OFFSETS_VERSION: Final = 7


@attrs.define(eq=False)
class Outcome:
    """The result of one step on one server."""

    step: Step
    value: Any


@attrs.define(eq=False)
class Transcript:
    """The outcomes of a sequence on one server, in the order of its steps.

    A response may arrive after those to later steps. Ids get their labels in the order of the steps, whenever the
    responses arrive: a difference is then at the step whose response has another id.
    """

    place: Place
    outcomes: list[Outcome] = attrs.field(factory=list)
    # The responses of outcomes that are not comparable yet, by position.
    _responses: dict[int, Any] = attrs.field(factory=dict)
    # The position of the first outcome that may still get a response, or whose response is not comparable yet.
    _next: int = 0

    def begin(self, step: Step, value: Any) -> Outcome:
        """Adds the outcome of the next step, with its value as long as there is no response."""
        self.outcomes.append(Outcome(step, value))
        return self.outcomes[-1]

    def add_response(self, outcome: Outcome, response: Any) -> None:
        outcome.step.observe(self.place, response)
        self._responses[self.outcomes.index(outcome)] = response

    def compare(self, waiting: Collection[Outcome] = ()) -> None:
        """Gives outcomes with responses their comparable values, up to the first one that waits for its response."""
        while self._next < len(self.outcomes) and self.outcomes[self._next] not in waiting:
            outcome = self.outcomes[self._next]
            if (response := self._responses.pop(self._next, None)) is not None:
                outcome.value = outcome.step.comparable(self.place, response)
            self._next += 1


@attrs.define(eq=False)
class Server:
    """The connections of one worker to one server, which stay open from one sequence to the next."""

    name: str
    port: int
    _clients: dict[int, WireClient] = attrs.field(factory=dict)
    _streams: dict[int, trio.SocketStream] = attrs.field(factory=dict)
    _waiting: dict[int, Outcome] = attrs.field(factory=dict)

    async def client(self, number: int) -> WireClient:
        if number not in self._clients:
            stream = self._streams[number] = await trio.open_tcp_stream("127.0.0.1", self.port)
            self._clients[number] = WireClient(stream, f"client-{number}")
        return self._clients[number]

    async def drop(self, number: int) -> None:
        """Close a connection; the next step of that client opens another one."""
        client = self._clients.pop(number, None)
        if client is not None:
            await client.aclose()

    async def aclose(self) -> None:
        for number in list(self._clients):
            await self.drop(number)

    async def call(self, request: Any, version: int) -> Any:
        """A request that belongs to no step."""
        return await (await self.client(0)).call(request, version)

    async def create_topics(self, topics: dict[str, int]) -> dict[str, bytes]:
        """Creates topics, and returns their ids once they have leaders."""
        creatable = [
            CreatableTopic(name=name, num_partitions=count, replication_factor=1, configs=[_KEEPS_ALL])
            for name, count in topics.items()
        ]
        response = await self.call(CreateTopicsRequest(topics=creatable, timeout_ms=10_000), _CREATE_TOPICS_VERSION)
        failed = [each.name for each in response.topics if each.error_code]
        assert not failed, f"not created: {failed}"
        await self._wait_for_leaders(topics)
        return {each.name: each.topic_id for each in response.topics}

    async def _wait_for_leaders(self, topics: dict[str, int]) -> None:
        listed = {name: [ListOffsetsPartition(partition_index=at) for at in range(n)] for name, n in topics.items()}
        request = ListOffsetsRequest(
            replica_id=-1,
            topics=[ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in listed.items()],
        )
        deadline = trio.current_time() + _LEADERS_S
        while {"NONE"} != (found := set(error_names(await self.call(request, _LIST_OFFSETS_VERSION)))):
            assert trio.current_time() < deadline, f"new topics of {self.name}: {sorted(found)}"
            await trio.sleep(_RETRY_PAUSE_S)

    async def delete_topics(self, names: Sequence[str]) -> None:
        states = [DeleteTopicState(name=name) for name in names]
        await self.call(DeleteTopicsRequest(topics=states, timeout_ms=10_000), _DELETE_TOPICS_VERSION)

    # A sequence

    async def run(self, family: Family, steps: Sequence[Step], place: Place) -> list[Outcome]:
        """The outcomes of all steps, in their order."""
        self._waiting.clear()
        transcript = Transcript(place)
        for step in steps:
            if step.is_paused or not step.is_awaited:
                await family.settle(place, self.call)
            outcome = transcript.begin(step, STILL_WAITING)
            if await self._receive(step.client, transcript):
                await self._perform(family, outcome, transcript)
            transcript.compare(self._waiting.values())
        await family.settle(place, self.call)
        for number in list(self._waiting):
            if not await self._receive(number, transcript):
                await self.drop(number)
        transcript.compare()
        return transcript.outcomes

    async def _perform(self, family: Family, outcome: Outcome, transcript: Transcript) -> None:
        step = outcome.step
        request, version = step.request(transcript.place)
        client = await self.client(step.client)
        if not step.is_awaited:
            await client.send(request, version)
            self._waiting[step.client] = outcome
            outcome.value = WAITING
            return
        deadline = trio.current_time() + _PASSING_S
        passing = {code.name for code in family.passing}
        while True:
            await client.send(request, version)
            response = await self._take(step.client, outcome)
            if response is None:
                return
            is_passing = not step.is_paused and not passing.isdisjoint(error_names(response))
            if not is_passing or trio.current_time() > deadline:
                break
            await trio.sleep(_RETRY_PAUSE_S)
        transcript.add_response(outcome, response)

    async def _receive(self, number: int, transcript: Transcript) -> bool:
        """Takes the response that a client has yet to get, if any. False if the server has not sent it."""
        outcome = self._waiting.get(number)
        if outcome is None:
            return True
        with trio.move_on_after(_ARRIVAL_S) as waiting:
            await trio.lowlevel.wait_readable(self._streams[number].socket)
        if waiting.cancelled_caught:
            return False
        del self._waiting[number]
        if (response := await self._take(number, outcome)) is not None:
            transcript.add_response(outcome, response)
        return True

    async def _take(self, number: int, outcome: Outcome) -> Any:
        """The next response, or None with the outcome set."""
        try:
            return await self._clients[number].receive()
        except (EOFError, trio.BrokenResourceError):
            outcome.value = CLOSED
        except trio.TooSlowError:
            outcome.value = SILENCE
        with suppress(trio.BrokenResourceError):
            await self.drop(number)
        return None


def error_names(message: Any) -> list[str]:
    """The names of all errors in a response."""
    if isinstance(message, list):
        return [each for inner in message for each in error_names(inner)]
    found = []
    for each in getattr(message, "__fields__", ()):
        value = getattr(message, each.name)
        found += [error_name(value)] if each.name.endswith("error_code") else error_names(value)
    return found
