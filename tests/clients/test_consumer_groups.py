"""Groups of `group.protocol=consumer` (KIP-848): real members come, go and die; nothing is skipped or read by two."""

from collections.abc import Callable, Iterator

import pytest

from tests.support.group_members import ConsumerProtocolMember, GroupMember, LibraryConsumerProtocolMember
from tests.support.group_play import Beginning, Play, discard, ten_come_and_two_go
from tests.support.node_process import NodeProcess

pytestmark = pytest.mark.clients

PARTITIONS = 60
KINDS = [ConsumerProtocolMember, LibraryConsumerProtocolMember]


@pytest.fixture
def begin(groups_node: NodeProcess) -> Iterator[Beginning]:
    """Make a play, whose members are gone when the test is over."""
    plays: list[Play] = []

    def begin_one(topics: dict[str, int], strategy: str = "uniform", **options: object) -> Play:
        options = {"bootstrap": groups_node.bootstrap, "kind": ConsumerProtocolMember, **options}
        plays.append(Play(topics=topics, strategy=strategy, **options))  # type: ignore[arg-type]
        return plays[-1]

    yield begin_one
    discard(plays)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("assignor", ConsumerProtocolMember.STRATEGIES)
def test_members_come_and_go_and_nothing_is_skipped(
    assignor: str, kind: type[GroupMember], begin: Beginning, topic: str, figure: Callable[[str], None]
) -> None:
    play = begin({topic: PARTITIONS}, assignor, kind=kind)
    figure(ten_come_and_two_go(play, "CONSUMER"))
    assert play.history.twice == 0


@pytest.mark.parametrize("kind", KINDS)
def test_members_that_are_killed_are_missed(
    kind: type[GroupMember], begin: Beginning, topic: str, figure: Callable[[str], None]
) -> None:
    play = begin({topic: PARTITIONS}, kind=kind)
    play.come(*"abcde", is_process=True)
    play.come(*"fghij")
    play.shared()
    play.produce()
    play.all_read()
    play.kill("a", "c")
    play.produce()
    missed = play.shared()
    play.all_read()
    play.come("a", "c", is_process=True)
    play.shared()
    play.produce()
    play.kill("b", "d", "e")
    play.shared()
    play.all_read()
    play.all_committed()
    figure(f"eight share {missed:.1f} s after a kill, {play.history.twice} records read twice, {play.history.losers}")
    play.end()


def test_restarted_static_members_keep_their_partitions(begin: Beginning, topic: str) -> None:
    play = begin({topic: PARTITIONS})
    play.come("a", "b", "c", is_static=True)
    play.come("d", is_static=True, is_process=True)
    play.shared()
    before = dict(play.history.owners)
    play.produce()
    play.all_read()
    play.close("b")
    play.produce()
    play.come("b", is_static=True)
    play.shared()
    assert play.history.owners == before
    play.all_read()
    assert play.history.twice == 0
    # A killed member is missed only when its session expires, and its place is taken then.
    play.kill("d")
    play.shared()
    play.come("d", is_static=True, is_process=True)
    play.produce()
    play.shared()
    play.all_read()
    play.is_described_as("CONSUMER", "STABLE", 4)
    play.end()


def test_topics_are_found_by_a_pattern(begin: Beginning, topic: str, figure: Callable[[str], None]) -> None:
    play = begin({f"{topic}-a": 6, f"{topic}-b": 7}, subscription=[f"^{topic}-[abc]"], begins_at="earliest")
    play.come("a", "b", "c")
    play.shared()
    play.produce()
    play.all_read()
    play.create_topic(f"{topic}-c", 8)
    found = play.shared()
    play.produce()
    read = play.all_read()
    figure(f"a new topic was shared after {found:.1f} s, and read after {read:.1f} s more")
    play.end()


def test_commits_survive_the_coordinator(begin: Beginning, topic: str, new_node: Callable[..., NodeProcess]) -> None:
    node = new_node(offsets_topic_num_partitions=4)
    node.start()
    play = begin({topic: PARTITIONS}, bootstrap=node.bootstrap)
    play.produce()
    play.come(*"abc")
    play.shared()
    play.all_read()
    play.all_committed()
    before = dict(play.history.owners)
    node.kill()
    node.start()
    assert play.committed() == play.produced
    play.produce()
    play.all_read()
    play.all_committed()
    assert play.history.owners == before
    play.end()
    assert play.history.twice == 0
    node.stop()


def test_ten_members_share_nine_hundred_partitions(
    begin: Beginning, topic: str, new_node: Callable[..., NodeProcess], figure: Callable[[str], None]
) -> None:
    node = new_node()
    node.start()
    play = begin({topic: 900}, bootstrap=node.bootstrap)
    play.come(*"abcdefghi")
    began = play.shared()
    play.come("j")
    joined = play.shared()
    figure(f"nine share after {began:.1f} s, ten {joined:.1f} s after another one came")
    play.produce(1)
    play.all_read()
    play.end()
    assert play.history.twice == 0
    node.stop()
