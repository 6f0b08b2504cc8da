"""The client's request for which a decision is made: its deadline, and its use as the cause in events."""

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from metadata.controller import NewTopic
from metadata.controller.request_queue import PENDING_REQUESTS_MAX
from metadata.protocol import ErrorCode, KafkaError
from tests.support.metadata import metadata_node
from tests.support.volatile_disk import VolatileDisk


@attrs.frozen
class AskedBy:
    """A request of a client."""

    client_id: str | None = "admin-1"
    deadline: float = float("inf")
    principal: str = "User:alice"
    client_host: str = "10.0.0.7"
    api_name: str = "CreateTopics"
    api_version: int = 7
    correlation_id: int = 42

    def charge_mutations(self, count: int) -> None:
        """Without quotas."""


@pytest.mark.parametrize(
    ("client_id", "cause"),
    [
        ("admin-1", "CreateTopics of User:alice, client 'admin-1' at 10.0.0.7"),
        ("a\nb" + "c" * 200, f"CreateTopics of User:alice, client 'a\\nb{'c' * 97}' at 10.0.0.7"),
        (None, "CreateTopics of User:alice, a client at 10.0.0.7"),
    ],
)
async def test_event_of_a_decision_names_the_client_that_asked(
    autojump_clock: MockClock, client_id: str | None, cause: str
) -> None:
    causes: list[object] = []

    def trace(kind: str, /, **fields: object) -> None:
        if kind == "topic_created":
            causes.append(fields["cause"])

    async with metadata_node(VolatileDisk(), trace=trace) as node:
        await node.join(1)
        await node.controller.create_topics([NewTopic("t")], context=AskedBy(client_id))
    assert causes == [cause]


async def test_queued_request_times_out_undecided_at_its_deadline(autojump_clock: MockClock) -> None:
    disk = VolatileDisk()
    async with metadata_node(disk) as node:
        await node.join()
        gate = trio.Event()
        disk.during_sync = gate.wait
        refused: list[tuple[str, ErrorCode]] = []

        async def create(name: str, deadline: float) -> None:
            try:
                await node.controller.create_topics([NewTopic(name)], context=AskedBy(deadline=deadline))
            except KafkaError as error:
                refused.append((name, error.code))

        now = trio.current_time()
        async with trio.open_nursery() as nursery:
            for number in range(PENDING_REQUESTS_MAX):
                # These do not queue, so their deadline does not matter: they are decided at once.
                nursery.start_soon(create, f"first-{number}", now)
            await wait_all_tasks_blocked()
            nursery.start_soon(create, "too-late", now)
            nursery.start_soon(create, "in-time", now + 1_000_000)
            await wait_all_tasks_blocked()
            gate.set()
        assert refused == [("too-late", ErrorCode.REQUEST_TIMED_OUT)]
        assert "too-late" not in node.controller.image.topics.by_name
        assert "in-time" in node.controller.image.topics.by_name
