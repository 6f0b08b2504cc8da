"""Planted bugs in elections, each of which breaks a rule of KIP-966: the model of crashing brokers has to find them.

Violations of AlterPartition's epochs take more steps than a random search finds quickly: test_alter_partition tests
these rules directly.
"""

from collections.abc import Callable

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from metadata.controller.broker_partitions import BrokerPartitions
from metadata.controller.partition_change_builder import PartitionChangeBuilder
from tests.metadata.test_elections_keep_records import ReplicatedPartition

HUNT = settings(
    max_examples=500,
    stateful_step_count=40,
    phases=[Phase.generate],  # no shrinking: finding the bug is enough
)


def a_crash_counts_as_clean(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BrokerPartitions, "broker_shut_down_uncleanly", BrokerPartitions.broker_inactive)


def whoever_is_not_in_sync_is_eligible(patch: pytest.MonkeyPatch) -> None:
    def eligible(self: PartitionChangeBuilder, replicas: tuple[int, ...], isr: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(each for each in replicas if each not in (*isr, self.unclean_shutdown))

    patch.setattr(PartitionChangeBuilder, "_eligible", eligible)


def eligibility_does_not_end_at_min_insync_replicas(patch: pytest.MonkeyPatch) -> None:
    def eligible(self: PartitionChangeBuilder, replicas: tuple[int, ...], isr: tuple[int, ...]) -> tuple[int, ...]:
        had_everything = (*self.partition.isr, *self.partition.eligible_leader_replicas)
        return tuple(each for each in had_everything if each not in (*isr, self.unclean_shutdown))

    patch.setattr(PartitionChangeBuilder, "_eligible", eligible)


@pytest.mark.parametrize(
    "plant",
    [a_crash_counts_as_clean, whoever_is_not_in_sync_is_eligible, eligibility_does_not_end_at_min_insync_replicas],
)
def test_a_planted_bug_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(ReplicatedPartition, settings=HUNT)
