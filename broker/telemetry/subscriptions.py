"""The client metrics subscriptions of the cluster, and those that apply to a client."""

from collections.abc import Generator, Mapping
from typing import Final, TypeAlias, TypeVar

from broker.telemetry.otlp import TEXT_MAX
from kraft import lazy_attrs
from kraft.checksums import crc32c
from metadata.configuration import CLIENT_METRICS_CONFIGS, ClientMetricsConfigs
from metadata.configuration.client_metrics import ALL_METRICS, client_patterns
from metadata.regex.matching import Regex

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]

_INT32_SIGN: Final = 1 << 31
_REPLACED: Final = "?"


class Subscription:
    """One resource of type client metrics. Its patterns are compiled when the first client is compared with them.

    Raises InvalidConfig for configs that the controller would refuse.
    """

    def __init__(self, configs: Mapping[str, str]) -> None:
        values = ClientMetricsConfigs(CLIENT_METRICS_CONFIGS.parse(configs))
        self.metrics = values.metrics
        self.interval_ms = values.interval_ms
        self._conditions = values.match
        self._patterns: dict[str, Regex] | None = None

    def matches(self, client: Mapping[str, str]) -> bool:
        """True if each pattern matches the whole of the client's attribute. An attribute that is missing does not."""
        if self._patterns is None:
            self._patterns = client_patterns(self._conditions)
        return all(
            attribute in client and pattern.matches(client[attribute]) for attribute, pattern in self._patterns.items()
        )


@lazy_attrs.frozen
class ClientSubscription:
    """The metrics that a client instance is asked to push. Brokers with the same configs compute the same id."""

    id: int
    metrics: tuple[str, ...]
    interval_ms: int

    @classmethod
    def compute(
        cls, subscriptions: Mapping[str, Subscription], client_instance_id: bytes, client: Mapping[str, str]
    ) -> Steps["ClientSubscription"]:
        """The union of the subscriptions that match the client, with the shortest of their intervals.

        Compiling and matching the patterns of one subscription is one step.
        """
        metrics: set[str] = set()
        interval_ms = ClientMetricsConfigs(CLIENT_METRICS_CONFIGS.parse({})).interval_ms
        plain = {name: _ascii(text[:TEXT_MAX]) for name, text in client.items()}
        for subscription in list(subscriptions.values()):
            if subscription.matches(plain):
                metrics.update(subscription.metrics)
                interval_ms = min(interval_ms, subscription.interval_ms)
            yield
        requested = (ALL_METRICS,) if ALL_METRICS in metrics else tuple(sorted(metrics))
        checksum = crc32c(f"{requested}{interval_ms}".encode()) ^ crc32c(client_instance_id)
        return cls(checksum - (checksum & _INT32_SIGN) * 2, requested, interval_ms)


def _ascii(text: str) -> str:
    """The text as patterns see it, which know the characters of ASCII only."""
    return text if text.isascii() else "".join(char if char.isascii() else _REPLACED for char in text)
