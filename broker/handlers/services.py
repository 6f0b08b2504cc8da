"""The rooms a handler may call. Handlers keep no state of their own; the composition root fills this in."""

import attrs

from broker.config import KafkaConfig
from broker.effective_config import EffectiveConfig
from broker.net.deadlines import Deadlines
from broker.producer_ids import ProducerIds
from broker.replication.fetch_sessions import FetchSessions
from broker.replication.partitions import Partitions
from broker.storage.log_dirs import LogDirs
from kraft.env import Env
from metadata.controller import Controller
from metadata.image import Loader


@attrs.frozen
class Services:
    env: Env
    cluster_id: str
    loader: Loader
    effective: EffectiveConfig
    controller: Controller
    partitions: Partitions
    log_dirs: LogDirs
    fetch_sessions: FetchSessions
    producer_ids: ProducerIds
    deadlines: Deadlines

    @property
    def config(self) -> KafkaConfig:
        """The node's configuration in force."""
        return self.effective.config

    def now_ms(self) -> int:
        """Wall-clock time in milliseconds since 1970."""
        return int(self.env.wall() * 1000)
