"""The values of a group stay within the broker's bounds, also if these have become narrower since they were set."""

from pathlib import Path

import pytest

from broker.coordinator.group.config import ConsumerGroupConfig, ShareGroupConfig
from broker.share_partitions.settings import DeliverySettings
from tests.support.running_node import node_config

BOUNDS = {
    "group.consumer.min.session.timeout.ms": 46_000,
    "group.consumer.max.session.timeout.ms": 50_000,
    "group.share.min.session.timeout.ms": 46_000,
    "group.share.max.session.timeout.ms": 50_000,
    "group.consumer.session.timeout.ms": 47_000,
    "group.share.session.timeout.ms": 47_000,
    "group.share.min.delivery.count.limit": 3,
    "group.share.max.delivery.count.limit": 6,
}


@pytest.mark.parametrize(
    ("text", "effective"), [("45999", 46_000), ("46000", 46_000), ("50000", 50_000), ("1", 46_000)]
)
@pytest.mark.parametrize("kind", [ConsumerGroupConfig, ShareGroupConfig])
def test_session_timeout_of_a_group_is_within_the_bounds(
    kind: type[ConsumerGroupConfig | ShareGroupConfig], text: str, effective: int, tmp_path: Path
) -> None:
    protocol = "share" if kind is ShareGroupConfig else "consumer"
    of_broker = kind.of(node_config(tmp_path, **BOUNDS))
    assert of_broker.of_group({f"{protocol}.session.timeout.ms": text}).session_timeout_ms == effective
    assert of_broker.of_group({"share.isolation.level": "read_committed"}).session_timeout_ms == 47_000


@pytest.mark.parametrize(("text", "effective"), [("2", 3), ("3", 3), ("6", 6), ("7", 6), ("none", 5)])
def test_delivery_count_limit_of_a_group_is_within_the_bounds(text: str, effective: int, tmp_path: Path) -> None:
    settings = DeliverySettings.of(node_config(tmp_path, **BOUNDS), {"share.delivery.count.limit": text})
    assert settings.delivery_count_limit == effective
