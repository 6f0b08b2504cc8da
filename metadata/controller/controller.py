"""The active controller: decide, append, replay; and answer when the log has committed."""

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TypeVar

import trio

from kraft.replicated_log import Batch, Leadership, NotLeader, ReplicatedLog
from metadata.configuration import ConfigSchema
from metadata.controller.brokers import BrokerRegistration, BrokersRoom
from metadata.controller.config import ControllerConfig
from metadata.controller.configs import ConfigChange, ConfigOutcome, ConfigsRoom
from metadata.controller.decision import Decision
from metadata.controller.features import bootstrap
from metadata.controller.partitions import NewPartitions, TopicOutcome, create_partitions
from metadata.controller.producer_ids import ProducerIdsBlock, allocate_producer_ids
from metadata.controller.topics import CreatedTopic, DeletedTopic, NewTopic, TopicsRoom, TopicToDelete
from metadata.errors import NotController
from metadata.image import ConfigResource, Loader, MetadataDelta, MetadataImage
from metadata.records import MetadataRecord, encode_record

T = TypeVar("T")

# Requests that wait for their commit at a time. Each holds at most one large batch, so this bounds memory; the others
# queue in order of arrival. Far more than one group commit needs to fill up.
PENDING_REQUESTS_MAX = 256


class Controller:
    """Serves requests while this node leads the metadata log; a listener of that log, to be registered after `loader`.

    `image` is the state to decide on: what is committed, and what was appended and is going to be. It only ever changes
    by replaying records. Every method answers once its records, and all it has seen, are committed and published, and
    raises NotController when this node does not lead, or ceased to while the answer was pending.
    """

    def __init__(
        self, config: ControllerConfig, log: ReplicatedLog, loader: Loader, schema: ConfigSchema, rng: Random
    ) -> None:
        self.image = MetadataImage()
        self._config = config
        self._log = log
        self._loader = loader
        self._rng = rng
        self._topics = TopicsRoom(config, schema, rng)
        self._configs = ConfigsRoom(schema)
        self._brokers = BrokersRoom(config)
        self._epoch: int | None = None
        self._pending = trio.CapacityLimiter(PENDING_REQUESTS_MAX)

    @property
    def is_active(self) -> bool:
        return self._epoch is not None

    async def create_topics(self, topics: Sequence[NewTopic], *, validate_only: bool = False) -> list[CreatedTopic]:
        """One answer for each name, those that were given twice last. Raises PolicyViolation."""
        return await self._write(lambda image: self._topics.create(image, topics), validate_only)

    async def delete_topics(self, topics: Sequence[TopicToDelete]) -> list[DeletedTopic]:
        """One answer for each topic, in order. Raises TopicDeletionDisabled."""
        return await self._write(lambda image: self._topics.delete(image, topics))

    async def create_partitions(
        self, topics: Sequence[NewPartitions], *, validate_only: bool = False
    ) -> list[TopicOutcome]:
        """One answer for each name, those that were given twice first. Raises PolicyViolation."""
        return await self._write(lambda image: create_partitions(image, topics, self._rng), validate_only)

    async def incremental_alter_configs(
        self, changes: Sequence[tuple[ConfigResource, Sequence[ConfigChange]]], *, validate_only: bool = False
    ) -> list[ConfigOutcome]:
        """One answer for each resource, in order."""
        return await self._write(lambda image: self._configs.incremental_alter(image, changes), validate_only)

    async def alter_configs(
        self,
        configs: Sequence[tuple[ConfigResource, Sequence[tuple[str, str | None]]]],
        *,
        validate_only: bool = False,
    ) -> list[ConfigOutcome]:
        """One answer for each resource, in order; what a request does not name goes back to its default."""
        return await self._write(lambda image: self._configs.alter(image, configs), validate_only)

    async def register_broker(self, registration: BrokerRegistration) -> int:
        """The broker epoch. Raises InconsistentClusterId, InvalidRegistration, UnsupportedVersion."""
        return await self._write(lambda image: self._brokers.register(image, registration, self._log.end_offset))

    async def unfence_broker(self, broker_id: int, broker_epoch: int) -> None:
        """To be called when the broker has caught up with the log. Raises StaleBrokerEpoch."""
        return await self._write(lambda image: self._brokers.unfence(image, broker_id, broker_epoch))

    async def allocate_producer_ids(self, broker_id: int, broker_epoch: int) -> ProducerIdsBlock:
        """A block that nobody else gets. Raises StaleBrokerEpoch."""
        return await self._write(lambda image: allocate_producer_ids(image, broker_id, broker_epoch))

    def handle_commit(self, batches: Sequence[Batch]) -> None:
        """Nothing to do: what others appended is taken over from the loader on activation."""

    async def handle_snapshot(self, end_offset: int, portions: Iterator[tuple[bytes, ...]]) -> None:
        """Likewise."""

    def handle_leader_change(self, leadership: Leadership) -> None:
        """Take over, or drop what was decided and not committed."""
        if leadership.leader_id != self._log.node_id:
            self._epoch = None
            return
        self._epoch = leadership.epoch
        self.image = self._loader.image
        if records := bootstrap(self.image, self._config):
            self._append(leadership.epoch, records)

    async def _write(self, decide: Callable[[MetadataImage], Decision[T]], validate_only: bool = False) -> T:
        async with self._pending:
            epoch = self._epoch
            if epoch is None:
                raise NotController
            decision = decide(self.image)
            if validate_only:
                decision = decision.without_records()
            if decision.records:
                self._append(epoch, decision.records)
            # Also without records: the answer may rest on what is not committed yet.
            try:
                await self._log.wait_committed(epoch, self.image.offset)
            except NotLeader as error:
                raise NotController from error
            return decision.response

    def _append(self, epoch: int, records: Sequence[MetadataRecord]) -> None:
        """No step between the decision and the end of this may yield, or another would decide on the state before."""
        delta = MetadataDelta(self.image)
        delta.replay(records)
        offset = self._log.append(epoch, [encode_record(record) for record in records])
        self.image = delta.apply(offset)
        self._loader.foretell(delta, self.image)
