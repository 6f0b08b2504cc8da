"""The config keys of a producer (ProducerConfig.java)."""

from typing import Final, Literal

import attrs

from broker.client.arguments.check import shown
from broker.client.config import (
    ClientConfig,
    ClientSettings,
    flag,
    number,
    parsed,
    require_servers,
    text,
    whole_number,
)
from broker.client.errors import ConfigError
from broker.wire.records import Compression

ACKS_NONE: Final = 0
ACKS_LEADER: Final = 1
ACKS_ALL: Final = -1

_ACKS: Final = {"all": ACKS_ALL, "-1": ACKS_ALL, "0": ACKS_NONE, "1": ACKS_LEADER}
_IDEMPOTENT_IN_FLIGHT_MAX: Final = 5
_INT64_MAX: Final = 2**63 - 1
_DELIVERY_TIMEOUT_MS: Final = 120_000.0
_TRANSACTION_TIMEOUT_MS: Final = 60_000


def _read_acks(key: str, value: object) -> int:
    acks = _ACKS.get(str(value).strip().lower()) if isinstance(value, str | int) else None
    if acks is None:
        raise ConfigError(f"{key} must be 0, 1 or all, not {shown(value)}")
    return acks


def _read_idempotence(key: str, value: object) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    known = {"true": True, "false": False}.get(value.strip().lower()) if isinstance(value, str) else None
    if known is None:
        raise ConfigError(f"{key} must be true or false, not {shown(value)}")
    return known


@attrs.frozen(kw_only=True)
class ProducerConfig(ClientConfig):
    """Kafka's keys and defaults. Times are in milliseconds, sizes in bytes.

    `enable_idempotence` is on by default, and off where it is not set and `acks`, `retries` or
    `max_in_flight_requests_per_connection` exclude it.
    """

    acks: int = parsed(ACKS_ALL, _read_acks)
    enable_idempotence: bool | None = parsed(None, _read_idempotence)
    batch_size: int = whole_number(16_384, at_least=0)
    linger_ms: float = number(5.0, at_least=0)
    buffer_memory: int = whole_number(33_554_432, at_least=0, at_most=_INT64_MAX)
    max_block_ms: float = number(60_000.0, at_least=0)
    max_request_size: int = whole_number(1_048_576, at_least=0)
    delivery_timeout_ms: float = number(_DELIVERY_TIMEOUT_MS, at_least=0)
    retries: int = whole_number(2_147_483_647, at_least=0)
    max_in_flight_requests_per_connection: int = whole_number(5, at_least=1)
    compression_type: str = text("none", one_of=("none", "gzip", "snappy", "lz4", "zstd"))
    compression_gzip_level: int = whole_number(-1, at_least=-1, at_most=9)
    compression_lz4_level: int = whole_number(9, at_least=1, at_most=17)
    compression_zstd_level: int = whole_number(3, at_least=-131_072, at_most=22)
    partitioner_ignore_keys: bool = flag(False)
    partitioner_adaptive_partitioning_enable: bool = flag(True)
    partitioner_availability_timeout_ms: float = number(0.0, at_least=0)
    metadata_max_idle_ms: float = number(300_000.0, at_least=5_000)
    transactional_id: str | None = text(None)
    transaction_timeout_ms: int = whole_number(_TRANSACTION_TIMEOUT_MS, at_least=0)
    transaction_two_phase_commit_enable: bool = flag(False)

    def __attrs_post_init__(self) -> None:
        """Raises ConfigError for keys that exclude each other, and for a missing server."""
        require_servers(self)
        if self.transactional_id == "":
            raise ConfigError("transactional.id must not be empty")
        if self.transactional_id is not None and not self.is_idempotent:
            obstacle = self._obstacle_to_idempotence() or "enable.idempotence"
            raise ConfigError(f"transactional.id needs {obstacle}; change it, or leave transactional.id out")
        if self.transaction_two_phase_commit_enable and self.transaction_timeout_ms != _TRANSACTION_TIMEOUT_MS:
            raise ConfigError(
                "transaction.timeout.ms has no effect with transaction.two.phase.commit.enable: leave it out, for"
                " prepared transactions have no timeout"
            )
        if self.enable_idempotence and (obstacle := self._obstacle_to_idempotence()):
            raise ConfigError(f"enable.idempotence needs {obstacle}; change it, or set enable.idempotence to false")
        if self.compression_gzip_level == 0:
            raise ConfigError("compression.gzip.level must be -1, or between 1 and 9, not 0")
        least = self.linger_ms + self.request_timeout_ms
        if self.delivery_timeout_ms < least and self.delivery_timeout_ms != _DELIVERY_TIMEOUT_MS:
            raise ConfigError(
                f"delivery.timeout.ms must be at least linger.ms + request.timeout.ms, which is {least:g},"
                f" not {self.delivery_timeout_ms:g}"
            )

    @property
    def is_idempotent(self) -> bool:
        return self.enable_idempotence is not False and not self._obstacle_to_idempotence()

    @property
    def delivery_timeout_s(self) -> float:
        """The delivery timeout in seconds: at least `linger.ms` plus `request.timeout.ms`."""
        return max(self.delivery_timeout_ms, self.linger_ms + self.request_timeout_ms) / 1000

    @property
    def compression(self) -> Compression:
        return Compression[self.compression_type.upper()]

    @property
    def compression_level(self) -> int | None:
        """The level of the chosen compression; None for its default."""
        if self.compression_type == "gzip":
            return None if self.compression_gzip_level == -1 else self.compression_gzip_level
        return {"lz4": self.compression_lz4_level, "zstd": self.compression_zstd_level}.get(self.compression_type)

    def _obstacle_to_idempotence(self) -> str:
        if self.acks != ACKS_ALL:
            return "acks=all"
        if self.max_in_flight_requests_per_connection > _IDEMPOTENT_IN_FLIGHT_MAX:
            return f"max.in.flight.requests.per.connection of at most {_IDEMPOTENT_IN_FLIGHT_MAX}"
        return "retries of at least 1" if self.retries == 0 else ""


class ProducerSettings(ClientSettings, total=False):
    """The keys of `ProducerConfig` as keyword arguments."""

    acks: Literal[0, 1, -1, "0", "1", "-1", "all"]
    enable_idempotence: bool
    batch_size: int
    linger_ms: float
    buffer_memory: int
    max_block_ms: float
    max_request_size: int
    delivery_timeout_ms: float
    retries: int
    max_in_flight_requests_per_connection: int
    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    partitioner_ignore_keys: bool
    partitioner_adaptive_partitioning_enable: bool
    partitioner_availability_timeout_ms: float
    metadata_max_idle_ms: float
    transactional_id: str | None
    transaction_timeout_ms: int
    transaction_two_phase_commit_enable: bool
