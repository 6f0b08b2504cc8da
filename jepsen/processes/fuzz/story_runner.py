"""Runs stories against a node, several at a time, and counts the outcomes of their frames."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from random import Random
from typing import Any, Final

import attrs
import trio

from jepsen.hostile.frames import RAW_SASL, BadResponse, Frame
from jepsen.hostile.quorum_stories import QuorumFrame, QuorumStoryTools
from jepsen.hostile.sasl_stories import is_proof
from jepsen.hostile.stories import broker_story, controller_story, sasl_story
from jepsen.hostile.story import Story
from jepsen.hostile.target import Target
from jepsen.hostile.tls_stories import Opening, Session, TlsConversation, tls_story
from jepsen.processes.fuzz.connections import Closed, KafkaConnection, QuorumConnection, Silent, open_stream
from jepsen.processes.fuzz.tls_conversations import TlsClient, try_opening

KAFKA: Final = "kafka"
CONTROLLER: Final = "controller"
QUORUM: Final = "quorum"
SASL: Final = "sasl"
TLS: Final = "tls"
PORTS: Final = (KAFKA, CONTROLLER, QUORUM, SASL, TLS)
_AUTHENTICATE: Final = 36
# The node may answer these before a client has authenticated.
_UNAUTHENTICATED: Final = (17, _AUTHENTICATE, 18, RAW_SASL)
_BAD_SHOWN: Final = 20
_CLOSED_KEPT: Final = 400
# Long enough for a node to close the connection; one that waits for the rest of a frame does not.
_BROKEN_TIMEOUT_S: Final = 0.02


@attrs.define
class Counts:
    """The outcomes of frames. Keys of `frames` are ports; keys of the others are APIs and messages.

    `closings` are the last valid requests before a connection was closed: (story, correlation id, API).
    """

    frames: Counter[str] = attrs.field(factory=Counter)
    answered: Counter[str] = attrs.field(factory=Counter)
    closed: Counter[str] = attrs.field(factory=Counter)
    unanswered: Counter[str] = attrs.field(factory=Counter)
    refused_bytes: int = 0
    connections: int = 0
    authentications: int = 0
    closings: list[tuple[int, int, str]] = attrs.field(factory=list)
    bad_responses: list[tuple[int, str]] = attrs.field(factory=list)

    @property
    def total(self) -> int:
        return sum(self.frames.values())


def story_rng(seed: int, story: int) -> Random:
    return Random(seed << 40 | story)


@attrs.define(eq=False)
class StoryRunner:
    """`port_of` gives the port of a listener by its name; stories take turns on `ports`."""

    target: Target
    port_of: dict[str, int]
    ports: Sequence[str]
    seed: int
    counts: Counts = attrs.field(factory=Counts)
    under_way: set[int] = attrs.field(factory=set)
    last_story: int = -1

    async def run(self, stories: Iterator[int]) -> None:
        """Run one story after the other. Raises OSError and TooSlowError if the node accepts no connection."""
        for story in stories:
            self.under_way.add(story)
            await self.run_story(story)
            self.under_way.discard(story)

    async def run_story(self, story: int) -> None:
        rng = story_rng(self.seed, story)
        port = self.ports[story % len(self.ports)]
        if port == QUORUM:
            await _QuorumStory(self, story, rng).run()
        elif port == SASL:
            await SaslStory(self, story, port).run(sasl_story(rng, self.target))
        elif port == TLS:
            await TlsStory(self, story).run(tls_story(rng, self.target))
        else:
            make = broker_story if port == KAFKA else controller_story
            await _KafkaStory(self, story, port).run(make(rng, self.target))

    def bad_response(self, story: int, error: BadResponse) -> None:
        if len(self.counts.bad_responses) < _BAD_SHOWN:
            self.counts.bad_responses.append((story, str(error)))

    def closed_for(self, story: int, correlation_id: int, name: str) -> None:
        self.counts.closed[name] += 1
        self.counts.closings = [*self.counts.closings[-_CLOSED_KEPT:], (story, correlation_id, name)]


class _KafkaStory:
    """One story over one connection at a time: whenever the node closes it, the story goes on over another one."""

    def __init__(self, runner: StoryRunner, story: int, port: str) -> None:
        self._runner = runner
        self._counts = runner.counts
        self._story = story
        self._port = port
        self._connection: KafkaConnection | None = None

    async def run(self, story: Story) -> None:
        answers: list[Any] | None = None
        try:
            while True:
                frames = next(story) if answers is None else story.send(answers)
                answers = await self._send(list(frames))
        except StopIteration:
            pass
        finally:
            await self._close()

    async def _send(self, frames: list[Frame]) -> list[Any]:
        """Send the sound frames together, and each of the others alone after those before it."""
        answers: list[Any] = []
        sound: list[Frame] = []
        for frame in frames:
            if frame.is_decodable:
                sound.append(frame)
                continue
            answers += await self._send_sound(sound)
            sound = []
            await self._send_broken(frame)
            answers.append(None)
        return answers + await self._send_sound(sound)

    async def _send_sound(self, frames: list[Frame]) -> list[Any]:
        """As `KafkaConnection.exchange`. After a close, what has no answer is sent again, one by one."""
        if not frames:
            return []
        self._counts.frames[self._port] += len(frames)
        try:
            answers = await (await self._connected()).exchange(frames)
        except Closed as closed:
            answers = closed.answers
            await self._close()
            if len(frames) == 1:
                self._runner.closed_for(self._story, frames[0].correlation_id, frames[0].api)
                return [None]
            for frame in frames[len(answers) :]:
                self._counts.frames[self._port] -= 1
                answers += await self._send_sound([frame])
            return answers
        except Silent as silent:
            await self._close()
            self._counts.unanswered[frames[len(silent.answers)].api] += 1
            return silent.answers + [None] * (len(frames) - len(silent.answers))
        except BadResponse as error:
            await self._close()
            self._runner.bad_response(self._story, error)
            return [None] * len(frames)
        self._counts.answered.update(frame.api.partition(" ")[0] for frame in frames)
        return answers

    async def _send_broken(self, frame: Frame) -> None:
        """A frame that cannot be decoded ends its connection, at once or when this side does not continue it."""
        self._counts.frames[self._port] += 1
        self._counts.refused_bytes += 1
        with trio.move_on_after(_BROKEN_TIMEOUT_S):
            with suppress(Closed, BadResponse, Silent):
                await (await self._connected()).exchange([frame])
        await self._close()

    async def _connected(self) -> KafkaConnection:
        if self._connection is None:
            self._counts.connections += 1
            self._connection = KafkaConnection(await open_stream(self._runner.port_of[self._port]))
        return self._connection

    async def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.aclose()


class SaslStory(_KafkaStory):
    """A story with a listener that asks for SASL: the node answers other requests to authenticated clients only.

    Frames without an answer before a close are not sent again, as the connection has lost its state. An empty window
    ends the connection.
    """

    def __init__(self, runner: StoryRunner, story: int, port: str) -> None:
        super().__init__(runner, story, port)
        self._is_authenticated = False

    async def _send(self, frames: list[Frame]) -> list[Any]:
        if not frames:
            await self._close()
        broken = next((place for place, frame in enumerate(frames) if not frame.is_decodable), len(frames))
        answers = await self._send_sound(frames[:broken])
        if broken < len(frames):
            await self._send_broken(frames[broken])
        return answers + [None] * (len(frames) - len(answers))

    async def _send_sound(self, frames: list[Frame]) -> list[Any]:
        """The answers up to the one that did not come."""
        if not frames:
            return []
        self._counts.frames[self._port] += len(frames)
        connection = await self._connected()
        try:
            answers = await connection.exchange(frames)
        except (Closed, Silent) as ended:
            answers = ended.answers
            unanswered = frames[len(answers)]
            if isinstance(ended, Closed):
                self._runner.closed_for(self._story, unanswered.correlation_id, unanswered.api)
            else:
                self._counts.unanswered[unanswered.api] += 1
            self._check(answers, frames)
            await self._close()
            return answers
        except BadResponse as error:
            await self._close()
            self._runner.bad_response(self._story, error)
            return []
        self._check(answers, frames)
        return answers

    def _check(self, answers: list[Any], frames: list[Frame]) -> None:
        """Report answers that the client had no right to."""
        for answer, frame in zip(answers, frames, strict=False):
            self._counts.answered[frame.api.partition(" ")[0]] += answer is not None
            if not self._is_authenticated and frame.key not in _UNAUTHENTICATED and frame.is_answered:
                error = BadResponse(f"{frame.api} was answered before the client has authenticated")
                self._runner.bad_response(self._story, error)
            elif _has_authenticated(frame, answer):
                self._counts.authentications += 1
                self._is_authenticated = True
                if not frame.may_authenticate:
                    error = BadResponse(f"the client was authenticated by an invalid message in {frame.api}")
                    self._runner.bad_response(self._story, error)

    async def _close(self) -> None:
        self._is_authenticated = False
        await super()._close()


def _has_authenticated(frame: Frame, answer: Any) -> bool:
    if frame.key == RAW_SASL:
        return answer is not None and is_proof(answer)
    return frame.key == _AUTHENTICATE and answer is not None and not answer.error_code and is_proof(answer.auth_bytes)


class TlsStory:
    """A story with a listener of TLS: conversations, each over a connection of its own."""

    def __init__(self, runner: StoryRunner, story: int) -> None:
        self._runner = runner
        self._counts = runner.counts
        self._story = story
        self._port = runner.port_of[TLS]

    async def run(self, conversations: Sequence[TlsConversation]) -> None:
        for conversation in conversations:
            self._counts.connections += 1
            if isinstance(conversation, Opening):
                self._counts.frames[TLS] += len(conversation.writes)
                self._counts.refused_bytes += len(conversation.writes)
                await try_opening(self._port, conversation)
            else:
                await self._hold(conversation)

    async def _hold(self, session: Session) -> None:
        client = TlsClient(await open_stream(self._port), session)
        self._counts.frames[TLS] += 1
        try:
            if await client.shake_hands():
                for frames in (*session.windows, [session.last]):
                    await self._exchange(client, frames)
        except BadResponse as error:
            self._runner.bad_response(self._story, error)
        except (Closed, Silent):
            pass  # counted; the session has ended
        finally:
            await client.aclose()

    async def _exchange(self, client: TlsClient, frames: Sequence[Frame]) -> None:
        """Raises Closed, Silent, BadResponse."""
        self._counts.frames[TLS] += len(frames)
        try:
            await client.exchange(frames)
        except Closed as closed:
            if not client.is_damaged:
                frame = frames[len(closed.answers)]
                self._runner.closed_for(self._story, frame.correlation_id, frame.api)
            raise
        except Silent as silent:
            self._counts.unanswered[frames[len(silent.answers)].api] += 1
            raise
        self._counts.answered.update(frame.api.partition(" ")[0] for frame in frames)


class _QuorumStory:
    """A story in the quorum's protocol; each close is followed by another connection, with another hello."""

    def __init__(self, runner: StoryRunner, story: int, rng: Random) -> None:
        self._runner = runner
        self._counts = runner.counts
        self._story = story
        self._story_tools = QuorumStoryTools(rng, runner.target)
        self._connection: QuorumConnection | None = None

    async def run(self) -> None:
        story = self._story_tools.story()
        answers: list[Any] | None = None
        try:
            while True:
                frames = next(story) if answers is None else story.send(answers)
                answers = await self._send([frame for frame in frames if frame.is_sound])
                for frame in frames:
                    if not frame.is_sound:
                        self._counts.refused_bytes += 1
                        await self._send([frame])
        except StopIteration:
            pass
        finally:
            await self._close()

    async def _send(self, frames: list[QuorumFrame]) -> list[Any]:
        if not frames:
            return []
        try:
            if self._connection is None:
                await self._greet()
            assert self._connection is not None, "a refused hello raises"
            self._counts.frames[QUORUM] += len(frames)
            answers = await self._connection.exchange(frames)
        except Closed as closed:
            if frames[0].is_sound:
                self._counts.closed[QUORUM] += 1
            await self._close()
            return closed.answers
        except BadResponse as error:
            self._runner.bad_response(self._story, error)
            await self._close()
            return []
        self._counts.answered[QUORUM] += len(answers)
        return answers

    async def _greet(self) -> None:
        """Raises Closed where the hello was refused."""
        self._counts.connections += 1
        self._connection = QuorumConnection(await open_stream(self._runner.port_of[CONTROLLER]))
        hello = self._story_tools.hello()
        self._counts.frames[QUORUM] += 1
        await self._connection.greet(hello.data)

    async def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.aclose()
