"""Groups change from the classic to the consumer protocol and back while real clients consume. Members are replaced one
after the other, as in a rolling restart (KIP-848, "Upgrading to the new protocol").

When the last member of the consumer protocol has left, slower classic members get ILLEGAL_GENERATION, as with Kafka.
Their uncommitted records are read again, by one owner.
"""

from collections.abc import Callable, Iterator

import pytest

from tests.support.group_members import (
    AiokafkaMember,
    ConfluentMember,
    ConsumerProtocolMember,
    GroupMember,
    KafkaPythonMember,
)
from tests.support.group_scenario import Beginning, GroupScenario, discard
from tests.support.node_process import NodeProcess

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("few_objects")]

PARTITIONS = 12
CASES = [
    pytest.param(ConfluentMember, "range", id="confluent-range"),
    pytest.param(ConfluentMember, "cooperative-sticky", id="confluent-cooperative-sticky"),
    pytest.param(KafkaPythonMember, "range", id="kafka-python-range"),
    pytest.param(AiokafkaMember, "range", id="aiokafka-range"),
]


@pytest.fixture
def begin(groups_node: NodeProcess, topic: str) -> Iterator[Beginning]:
    """Make a scenario, whose members are stopped at the end of the test."""
    scenarios: list[GroupScenario] = []

    def begin_one(kind: type[GroupMember], strategy: str) -> GroupScenario:
        scenarios.append(GroupScenario(groups_node.bootstrap, {topic: PARTITIONS}, kind=kind, strategy=strategy))
        return scenarios[-1]

    yield begin_one
    discard(scenarios)


@pytest.mark.parametrize(("kind", "strategy"), CASES)
def test_members_are_replaced_one_by_one_in_both_directions(
    kind: type[GroupMember], strategy: str, begin: Beginning, figure: Callable[[str], None]
) -> None:
    scenario = begin(kind, strategy)
    scenario.produce()
    scenario.start_members(*"abc")
    scenario.shared()
    scenario.all_read()
    scenario.is_described_as("CLASSIC", "STABLE", 3)
    slowest = 0.0
    for name in "abc":
        scenario.produce()
        scenario.close(name)
        scenario.start_members(name.upper(), kind=ConsumerProtocolMember, strategy="uniform")
        slowest = max(slowest, scenario.shared())
        scenario.produce()
        scenario.all_read()
        assert scenario.description()[0] == "CONSUMER"
    scenario.is_described_as("CONSUMER", "STABLE", 3)
    for name in "abc":
        scenario.produce()
        scenario.close(name.upper())
        scenario.start_members(name)
        slowest = max(slowest, scenario.shared())
        scenario.produce()
        scenario.all_read()
        assert scenario.description()[0] == ("CLASSIC" if name == "c" else "CONSUMER")
    figure(f"shared at most {slowest:.1f} s after a member was replaced, {scenario.history.twice} records read twice")
    scenario.all_committed()
    scenario.end()
    scenario.is_described_as("CLASSIC", "EMPTY", 0)
