"""Classic groups of real clients: ten members with sixty partitions join, leave and die. No record is skipped, or read
by two members.
"""

from collections.abc import Callable, Iterator

import pytest

from tests.support.group_members import AiokafkaMember, ConfluentMember, GroupMember, KafkaPythonMember, LibraryMember
from tests.support.group_scenario import Beginning, GroupScenario, discard, ten_join_and_two_leave
from tests.support.node_process import NodeProcess

# kafka-python leaves the sockets of failed connections to the garbage collector.
pytestmark = [
    pytest.mark.clients,
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.usefixtures("few_objects"),
]

PARTITIONS = 60
KINDS: list[type[GroupMember]] = [ConfluentMember, KafkaPythonMember, AiokafkaMember, LibraryMember]
CASES = [
    pytest.param(kind, strategy, id=f"{kind.__name__}-{strategy}") for kind in KINDS for strategy in kind.STRATEGIES
]
# A static member that returns gets its former assignment with any strategy: each client is tested once, ours with all.
STATIC_CASES = [
    pytest.param(kind, strategy, id=f"{kind.__name__}-{strategy}")
    for kind in KINDS
    for strategy in (kind.STRATEGIES if kind is LibraryMember else kind.STRATEGIES[:1])
]


@pytest.fixture
def begin(groups_node: NodeProcess, topic: str) -> Iterator[Beginning]:
    """Make a scenario, whose members are stopped at the end of the test."""
    scenarios: list[GroupScenario] = []

    def begin_one(kind: type[GroupMember], strategy: str, **options: object) -> GroupScenario:
        bootstrap = options.pop("bootstrap", groups_node.bootstrap)
        scenarios.append(GroupScenario(bootstrap, {topic: PARTITIONS}, kind=kind, strategy=strategy, **options))  # type: ignore[arg-type]
        return scenarios[-1]

    yield begin_one
    discard(scenarios)


@pytest.mark.parametrize(("kind", "strategy"), CASES)
def test_members_come_and_go_and_nothing_is_skipped(
    kind: type[GroupMember], strategy: str, begin: Beginning, figure: Callable[[str], None]
) -> None:
    scenario = begin(kind, strategy)
    figure(ten_join_and_two_leave(scenario, "CLASSIC"))


@pytest.mark.parametrize(("kind", "strategy"), STATIC_CASES)
def test_restarted_static_members_keep_their_partitions(
    kind: type[GroupMember], strategy: str, begin: Beginning
) -> None:
    scenario = begin(kind, strategy)
    scenario.start_members("a", "b", is_static=True)
    scenario.start_members("c", is_static=True, is_process=True)
    scenario.shared()
    before = dict(scenario.history.owners)
    scenario.produce()
    scenario.all_read()
    scenario.close("b")
    scenario.start_members("b", is_static=True)
    scenario.shared()
    assert scenario.history.owners == before
    scenario.all_committed()
    scenario.kill("c")
    scenario.produce()
    scenario.start_members("c", is_static=True, is_process=True)
    scenario.shared()
    assert scenario.history.owners == before
    scenario.all_read()
    scenario.is_described_as("CLASSIC", "STABLE", 3)
    scenario.end()
    assert scenario.history.twice == 0


@pytest.mark.parametrize("kind", KINDS)
def test_commits_survive_the_coordinator(
    kind: type[GroupMember], begin: Beginning, new_node: Callable[..., NodeProcess]
) -> None:
    node = new_node(group_initial_rebalance_delay_ms=500, offsets_topic_num_partitions=4)
    node.start()
    scenario = begin(kind, "range", bootstrap=node.bootstrap)
    scenario.produce()
    scenario.start_members(*"abc")
    scenario.shared()
    scenario.all_read()
    scenario.all_committed()
    node.kill()
    node.start()
    assert scenario.committed() == scenario.produced
    scenario.produce()
    scenario.all_read()
    # If aiokafka is closed before it has found the coordinator again, it tries to commit without end.
    scenario.all_committed()
    scenario.shared()
    scenario.end()
    assert scenario.history.twice == 0
    node.stop()
