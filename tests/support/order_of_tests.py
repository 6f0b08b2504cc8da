"""The order of the tests in a run of several processes.

`--dist worksteal` gives each process an equal part of the list of tests. An idle process steals half of the tests that
another has left, from the end of its part. So each part begins with long tests, and short ones remain for the end of
the run.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import pytest

from tests.support.source_code import ROOT

# The tests that share a session of Spark run in one process. Another session is another JVM with its Python workers,
# which take 20 s of processor time until they are warm.
SPARK: Final = "spark"
# Seconds in a run of two processes, of the files that take 15 or more.
SECONDS: Final[Mapping[str, int]] = {
    SPARK: 250,
    "tests/jepsen/test_run.py": 75,
    "tests/jepsen/test_failover.py": 57,
    "tests/clients/test_classic_groups.py": 56,
    "tests/broker/spark/test_stream_kills.py": 54,
    "tests/clients/test_consumer_groups.py": 50,
    "tests/broker/quota/test_quotas_over_sockets.py": 48,
    "tests/broker/client/test_unreachable.py": 40,
    "tests/broker/cli/commands/test_cluster_health.py": 39,
    "tests/broker/cli/commands/test_cluster.py": 37,
    "tests/jepsen/testing/test_machine_faults.py": 34,
    "tests/jepsen/testing/test_links.py": 32,
    "tests/clients/test_transaction_kills.py": 31,
    "tests/broker/cli/commands/test_interfering_commands.py": 30,
    "tests/broker/cli/commands/test_cluster_commands.py": 28,
    "tests/simulation/applications/test_simulation_tour.py": 28,
    "tests/simulation/test_simulated_node.py": 27,
    "tests/simulation/test_replication_scenarios.py": 25,
    "tests/test_architecture.py": 24,
    "tests/broker/cli/commands/test_restart_of_controllers.py": 24,
    "tests/clients/test_transactions.py": 22,
    "tests/broker/cli/commands/test_cluster_restart.py": 21,
    "tests/broker/cli/commands/test_move_throttles.py": 21,
    "tests/clients/test_client_library_groups.py": 20,
    "tests/jepsen/testing/test_chaos.py": 20,
    "tests/broker/client/consumer/group/test_group_members.py": 19,
    "tests/broker/handlers/test_authorization.py": 19,
    "tests/clients/test_kafka_tools_side_by_side.py": 19,
    "tests/broker/client/producer/test_producer.py": 18,
    "tests/clients/test_group_migration.py": 18,
    "tests/test_readme_tour.py": 18,
    "tests/broker/test_damaged_files.py": 17,
    "tests/broker/cli/commands/test_groups.py": 16,
    "tests/simulation/test_planted_quota_bugs.py": 16,
    "tests/jepsen/test_fuzz.py": 16,
    "tests/simulation/test_planted_bugs.py": 15,
    "tests/broker/replication/test_damaged_replicas.py": 15,
}


def order_for_processes(items: Sequence[pytest.Item], processes: int) -> list[pytest.Item]:
    """The tests in an order whose equal parts, one for each process, begin with long tests of about the same time.

    The tests of a file stay in their order.
    """
    groups: dict[str, list[pytest.Item]] = {}
    short: list[pytest.Item] = []
    for item in items:
        name = _group(item)
        (groups.setdefault(name, []) if name in SECONDS else short).append(item)
    long: list[list[pytest.Item]] = [[] for _ in range(processes)]
    seconds = [0] * processes
    for name in sorted(groups, key=lambda name: -SECONDS[name]):
        least = seconds.index(min(seconds))
        seconds[least] += SECONDS[name]
        long[least] += groups[name]
    ordered: list[pytest.Item] = []
    for number, first in enumerate(long):
        part = (len(items) - len(ordered)) // (processes - number)
        fill = max(part - len(first), 0)
        ordered += [*first, *short[:fill]]
        del short[:fill]
    return [*ordered, *short]


def _group(item: pytest.Item) -> str:
    fixtures: list[str] = getattr(item, "fixturenames", [])
    return SPARK if SPARK in fixtures else item.path.relative_to(ROOT).as_posix()
