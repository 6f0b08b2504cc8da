"""Groups of `group.protocol=consumer` (KIP-848): real members come, go and die; nothing is skipped or read by two."""

from collections.abc import Callable, Iterator

import pytest

from tests.support.group_members import ConsumerProtocolMember
from tests.support.group_play import Beginning, Play, discard
from tests.support.node_process import NodeProcess

pytestmark = pytest.mark.clients

PARTITIONS = 60
# A member that was killed is missed after this long.
SESSION_MS = 3000


@pytest.fixture
def node(new_node: Callable[..., NodeProcess]) -> Iterator[NodeProcess]:
    node = new_node(
        offsets_topic_num_partitions=4,
        group_consumer_min_session_timeout_ms=SESSION_MS,
        group_consumer_session_timeout_ms=SESSION_MS,
        group_consumer_min_heartbeat_interval_ms=300,
        group_consumer_heartbeat_interval_ms=300,
    )
    node.start()
    yield node
    node.stop()


@pytest.fixture
def begin(node: NodeProcess) -> Iterator[Beginning]:
    """Make a play, whose members are gone when the test is over."""
    plays: list[Play] = []

    def begin_one(topics: dict[str, int], strategy: str = "uniform", **options: object) -> Play:
        plays.append(Play(node.bootstrap, topics, kind=ConsumerProtocolMember, strategy=strategy, **options))  # type: ignore[arg-type]
        return plays[-1]

    yield begin_one
    discard(plays)


@pytest.mark.parametrize("assignor", ConsumerProtocolMember.STRATEGIES)
def test_members_come_and_go_and_nothing_is_skipped(
    assignor: str, begin: Beginning, topic: str, figure: Callable[[str], None]
) -> None:
    play = begin({topic: PARTITIONS}, assignor)
    play.produce()
    play.come(*"abcd")
    play.shared()
    play.come(*"efghij")
    joined = play.shared()
    assert play.description() == ("CONSUMER", "STABLE", 10)
    play.produce()
    play.all_read()
    play.go("b", "h")
    left = play.shared()
    play.produce()
    play.all_read()
    figure(f"ten share after {joined:.1f} s, eight after {left:.1f} s, {play.history.twice} records read twice")
    assert play.history.twice == 0
    play.end()
    assert play.description() == ("CONSUMER", "EMPTY", 0)
