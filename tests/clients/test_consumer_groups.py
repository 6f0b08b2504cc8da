"""Groups with `group.protocol=consumer` (KIP-848): real members join, leave and die. No record is skipped or read by
two.
"""

from collections.abc import Callable, Iterator

import pytest

from tests.support.group_members import ConsumerProtocolMember, GroupMember, LibraryConsumerProtocolMember
from tests.support.group_scenario import Beginning, GroupScenario, discard, ten_join_and_two_leave
from tests.support.node_process import NodeProcess

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("few_objects")]

PARTITIONS = 60
KINDS = [ConsumerProtocolMember, LibraryConsumerProtocolMember]
# The tests that kill members wait for the ends of their sessions.
SHORT_SESSIONS = {"consumer.session.timeout.ms": "3000"}
# Members learn from a heartbeat that partitions are theirs.
HEARTBEATS = {"group_consumer_min_heartbeat_interval_ms": 300, "group_consumer_heartbeat_interval_ms": 300}


@pytest.fixture
def begin(groups_node: NodeProcess) -> Iterator[Beginning]:
    """Make a scenario, whose members are stopped at the end of the test."""
    scenarios: list[GroupScenario] = []

    def begin_one(topics: dict[str, int], strategy: str = "uniform", **options: object) -> GroupScenario:
        options = {"bootstrap": groups_node.bootstrap, "kind": ConsumerProtocolMember, **options}
        scenarios.append(GroupScenario(topics=topics, strategy=strategy, **options))  # type: ignore[arg-type]
        return scenarios[-1]

    yield begin_one
    discard(scenarios)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("assignor", ConsumerProtocolMember.STRATEGIES)
def test_members_come_and_go_and_nothing_is_skipped(
    assignor: str, kind: type[GroupMember], begin: Beginning, topic: str, figure: Callable[[str], None]
) -> None:
    scenario = begin({topic: PARTITIONS}, assignor, kind=kind)
    figure(ten_join_and_two_leave(scenario, "CONSUMER"))
    assert scenario.history.twice == 0


@pytest.mark.parametrize("kind", KINDS)
def test_members_that_are_killed_are_missed(
    kind: type[GroupMember], begin: Beginning, topic: str, figure: Callable[[str], None]
) -> None:
    scenario = begin({topic: PARTITIONS}, kind=kind, group_configs=SHORT_SESSIONS)
    scenario.start_members(*"abcde", is_process=True)
    scenario.start_members(*"fghij")
    scenario.shared()
    scenario.produce()
    scenario.all_read()
    scenario.kill("a", "c")
    scenario.produce()
    missed = scenario.shared()
    scenario.all_read()
    scenario.start_members("a", "c", is_process=True)
    scenario.shared()
    scenario.produce()
    scenario.kill("b", "d", "e")
    scenario.shared()
    scenario.all_read()
    scenario.all_committed()
    history = scenario.history
    figure(f"eight share {missed:.1f} s after a kill, {history.twice} records read twice, {history.losers}")
    scenario.end()


def test_restarted_static_members_keep_their_partitions(begin: Beginning, topic: str) -> None:
    scenario = begin({topic: PARTITIONS}, group_configs=SHORT_SESSIONS)
    scenario.start_members("a", "b", "c", is_static=True)
    scenario.start_members("d", is_static=True, is_process=True)
    scenario.shared()
    before = dict(scenario.history.owners)
    scenario.produce()
    scenario.all_read()
    scenario.close("b")
    scenario.produce()
    scenario.start_members("b", is_static=True)
    scenario.shared()
    assert scenario.history.owners == before
    scenario.all_read()
    assert scenario.history.twice == 0
    # A killed member is removed only when its session expires.
    scenario.kill("d")
    scenario.shared()
    scenario.start_members("d", is_static=True, is_process=True)
    scenario.produce()
    scenario.shared()
    scenario.all_read()
    scenario.is_described_as("CONSUMER", "STABLE", 4)
    scenario.end()


def test_topics_are_found_by_a_pattern(begin: Beginning, topic: str, figure: Callable[[str], None]) -> None:
    scenario = begin({f"{topic}-a": 6, f"{topic}-b": 7}, subscription=[f"^{topic}-[abc]"], begins_at="earliest")
    scenario.start_members("a", "b", "c")
    scenario.shared()
    scenario.produce()
    scenario.all_read()
    scenario.create_topic(f"{topic}-c", 8)
    found = scenario.shared()
    scenario.produce()
    read = scenario.all_read()
    figure(f"a new topic was shared after {found:.1f} s, and read after {read:.1f} s more")
    scenario.end()


def test_commits_survive_the_coordinator(begin: Beginning, topic: str, new_node: Callable[..., NodeProcess]) -> None:
    node = new_node(offsets_topic_num_partitions=4, **HEARTBEATS)
    node.start()
    scenario = begin({topic: PARTITIONS}, bootstrap=node.bootstrap)
    scenario.produce()
    scenario.start_members(*"abc")
    scenario.shared()
    scenario.all_read()
    scenario.all_committed()
    before = dict(scenario.history.owners)
    node.kill()
    node.start()
    assert scenario.committed() == scenario.produced
    scenario.produce()
    scenario.all_read()
    scenario.all_committed()
    assert scenario.history.owners == before
    scenario.end()
    assert scenario.history.twice == 0
    node.stop()


def test_ten_members_share_nine_hundred_partitions(
    begin: Beginning, topic: str, new_node: Callable[..., NodeProcess], figure: Callable[[str], None]
) -> None:
    node = new_node(**HEARTBEATS)
    node.start()
    scenario = begin({topic: 900}, bootstrap=node.bootstrap)
    scenario.start_members(*"abcdefghi")
    began = scenario.shared()
    scenario.start_members("j")
    joined = scenario.shared()
    figure(f"nine share after {began:.1f} s, ten {joined:.1f} s after another one came")
    scenario.produce(1)
    scenario.all_read()
    scenario.end()
    assert scenario.history.twice == 0
    node.stop()
