"""The requests that the core has yet to answer: of other replicas, by connection, and of tasks of this process."""

from collections.abc import Callable

import attrs
import trio

from kraft.core import OffsetAndEpoch, ReplicaKey
from kraft.core.effects import AnswerEntries, AnswerSnapshot
from kraft.core.messages import Error, FetchSnapshotResponse, Response, VoterChangeResponse
from kraft.env import Tracer
from kraft.log import CorruptLog, DurableLog, ReplicaFiles, Snapshots
from kraft.rpc import ServedConnection

# Bytes of a snapshot in one response. The response carries them as they are on disk.
SNAPSHOT_BYTES_MAX = 1 << 20
# Bytes of entries in one response to a Fetch. A megabyte of the smallest batches would block the event loop for 100 ms.
FETCH_BYTES_MAX = 1 << 17
# Replicas whose latest fetch of a snapshot is remembered.
_FETCHING_MAX = 100


class InboundRequests:
    """Maps tokens to requests. A token is used once; a response to a request that has been removed is dropped."""

    def __init__(self) -> None:
        self._next_token = 0
        self._connections: dict[int, tuple[ServedConnection, int]] = {}
        self._tasks: dict[int, tuple[trio.Event, list[VoterChangeResponse]]] = {}
        # The snapshots that other replicas have begun to fetch.
        self._fetching: dict[ReplicaKey, OffsetAndEpoch] = {}

    def add(self, connection: ServedConnection, correlation_id: int) -> int:
        """Add a request that was received over `connection`, and return its token."""
        self._next_token += 1
        self._connections[self._next_token] = (connection, correlation_id)
        return self._next_token

    async def wait_response(self, send: Callable[[int], None]) -> VoterChangeResponse:
        """Call `send` with a new token, and wait for the response."""
        self._next_token += 1
        token = self._next_token
        answered, answers = self._tasks[token] = (trio.Event(), [])
        try:
            send(token)
            await answered.wait()
        finally:
            del self._tasks[token]
        return answers[0]

    def answer(self, token: int, response: Response) -> None:
        """Respond to the request of `token`."""
        if token in self._connections:
            connection, correlation_id = self._connections.pop(token)
            connection.respond(correlation_id, response)
        elif token in self._tasks:
            assert isinstance(response, VoterChangeResponse)
            answered, answers = self._tasks[token]
            answers.append(response)
            answered.set()

    def answer_entries(self, effect: AnswerEntries, log: DurableLog, files: ReplicaFiles, trace: Tracer) -> None:
        """Respond with entries, or with an error if the first one is damaged on the disk.

        The follower retries after a backoff. A snapshot replaces a committed entry meanwhile. If followers lack an
        entry that is not committed, they elect another leader, because errors do not reset their fetch timeouts.
        """
        try:
            batches = log.read(effect.offset, log.end_offset, FETCH_BYTES_MAX)
        except CorruptLog as error:
            if files.suspect():
                trace("log_entry_damaged", offset=effect.offset, reason=str(error))
            response = attrs.evolve(effect.response, error=Error.REQUEST_TIMED_OUT)
        else:
            response = attrs.evolve(effect.response, batches=batches)
        self.answer(effect.token, response)

    def answer_snapshot(self, effect: AnswerSnapshot, snapshots: Snapshots, files: ReplicaFiles) -> None:
        """Respond with at most SNAPSHOT_BYTES_MAX of the snapshot.

        A replica that begins to fetch it again may have refused it for its checksums, so the files are checked.
        """
        request = effect.request
        if request.position == 0:
            if self._fetching.pop(request.replica, None) == request.snapshot:
                files.suspect()
            self._fetching[request.replica] = request.snapshot
            if len(self._fetching) > _FETCHING_MAX:
                del self._fetching[next(iter(self._fetching))]
        try:
            data, size_bytes = snapshots.read(request.snapshot, request.position, SNAPSHOT_BYTES_MAX)
        except FileNotFoundError:
            self.answer(effect.token, FetchSnapshotResponse(effect.current_leader, error=Error.SNAPSHOT_NOT_FOUND))
        else:
            self.answer(effect.token, FetchSnapshotResponse(effect.current_leader, size_bytes, request.position, data))

    def remove_connection(self, connection: ServedConnection) -> None:
        """Remove the requests of a connection that has ended."""
        for token in [token for token, (each, _) in self._connections.items() if each is connection]:
            del self._connections[token]
