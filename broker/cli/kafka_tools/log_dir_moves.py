"""The part of kafka-reassign-partitions that moves replicas between the log directories of their brokers (KIP-113)."""

from collections.abc import Mapping
from typing import TypeAlias

import attrs
import trio

from broker.cli.kafka_tools.errors import message_of
from broker.cli.kafka_tools.options import ToolExit
from broker.cli.kafka_tools.reassignment_files import Directories
from broker.cli.printing import print_text
from broker.client import Admin
from broker.client.admin import TopicPartitionReplica
from broker.client.errors import KafkaError
from broker.client.types import TopicPartition
from broker.wire.errors import ErrorCode

Destinations: TypeAlias = dict[TopicPartitionReplica, str]

# The pause between two attempts to begin moves of replicas that their brokers do not have yet.
_RETRY_S = 0.1


@attrs.frozen
class MoveState:
    """The log directories of a replica, None for those that are not there; and where it is to move."""

    target: str
    current: str | None
    future: str | None

    @property
    def is_done(self) -> bool:
        """Whether no move is under way, or will begin."""
        return self.current is not None and self.future is None

    @property
    def is_active(self) -> bool:
        return self.current is not None and self.future is not None

    def describe(self, replica: TopicPartitionReplica) -> str:
        """The line of --verify."""
        partition, broker = f"Partition {replica.topic}-{replica.partition}", f"broker {replica.broker_id}"
        if self.current is None:
            if self.future is None:
                return (
                    f"{partition} is not found in any live log dir on {broker}. There is likely an offline log "
                    "directory on the broker."
                )
            return f"{partition} cannot be found in any live log directory on {broker}."
        if self.future is not None and self.future != self.target:
            return f"{partition} on {broker} is being moved to log dir {self.future} instead of {self.target}."
        if self.future is not None:
            return f"Reassignment of replica {replica} is still in progress."
        if self.current == self.target:
            return f"Reassignment of replica {replica} completed successfully."
        return f"{partition} on {broker} is not being moved from log dir {self.current} to {self.target}."


def destinations_of(directories: Directories) -> Destinations:
    """The log directories by replica, as calls of the client name them."""
    return {
        TopicPartitionReplica(partition.topic, partition.partition, broker): path
        for (partition, broker), path in directories.items()
    }


async def execute_moves(admin: Admin, wanted: Mapping[TopicPartitionReplica, str], timeout_ms: int) -> None:
    """Begins moves. Those of replicas that are being moved to other brokers can begin when they are there.

    Raises ToolExit, ClientError.
    """
    pending, deadline = dict(wanted), trio.current_time() + timeout_ms / 1000
    while True:
        results = await admin.alter_replica_log_dirs(pending)
        for replica, error in results.failed.items():
            if not (isinstance(error, KafkaError) and error.code is ErrorCode.REPLICA_NOT_AVAILABLE):
                raise ToolExit(1, f"Failed to alter dir for {replica}: {message_of(error)}")
        for replica in sorted(results.succeeded):
            path, name = pending.pop(replica), f"{replica.topic}-{replica.partition} with broker {replica.broker_id}"
            print_text(f"Successfully started moving log directory to {path} for replica {name} ")
        if not pending:
            return
        if trio.current_time() >= deadline:
            plural, names = "" if len(pending) == 1 else "s", ",".join(map(str, sorted(pending)))
            raise ToolExit(1, f"Timed out before log directory move{plural} could be started for: {names}")
        await trio.sleep(_RETRY_S)


async def find_moves(
    admin: Admin, wanted: Mapping[TopicPartitionReplica, str]
) -> dict[TopicPartitionReplica, MoveState]:
    """The states of moves. Raises KafkaError, ClientError."""
    if not wanted:
        return {}
    partitions = list(dict.fromkeys(TopicPartition(each.topic, each.partition) for each in wanted))
    described = await admin.describe_log_dirs(sorted({each.broker_id for each in wanted}), partitions=partitions)
    found: dict[tuple[TopicPartitionReplica, bool], str] = {
        (TopicPartitionReplica(partition.topic, partition.partition, broker), replica.is_future): path
        for broker, directories in described.raise_first().items()
        for path, directory in directories.items()
        for partition, replica in directory.replicas.items()
    }
    return {
        replica: MoveState(target, found.get((replica, False)), found.get((replica, True)))
        for replica, target in wanted.items()
    }
