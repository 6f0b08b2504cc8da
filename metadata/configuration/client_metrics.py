"""The keys of a client metrics subscription (KIP-714): which clients push which metrics, and how often."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from metadata.configuration.definition import ConfigDef, ConfigValues, InvalidConfig, key
from metadata.configuration.validators import no_empty_elements
from metadata.configuration.vocabulary import INT, LIST, MEDIUM, MINUTE_MS

if TYPE_CHECKING:
    from metadata.regex.matching import Regex

INTERVAL_MS_MIN: Final = 100
INTERVAL_MS_MAX: Final = 60 * MINUTE_MS
# In `metrics`: the subscription asks for all metrics.
ALL_METRICS: Final = "*"

# The attributes of a client that `match` can name.
CLIENT_ATTRIBUTES: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)

# A pattern for a client's name or version. Compiling one of this length takes less than a millisecond.
PATTERN_LENGTH_MAX: Final = 512


class ClientMetricsRequestError(InvalidConfig):
    """An error about a client metrics subscription that Kafka answers with INVALID_REQUEST, not INVALID_CONFIG."""


# Each key: type, default, validator, importance; then its documentation.
# fmt: off
class ClientMetricsConfigs(ConfigValues):
    """The keys of a client metrics subscription."""

    metrics = key(LIST, (), no_empty_elements, MEDIUM,
        "Prefixes of the names of the metrics that clients push; * stands for all metrics.")
    interval_ms = key(INT, 5 * MINUTE_MS, None, MEDIUM,
        "How often in ms a client pushes its metrics.")
    match = key(LIST, (), no_empty_elements, MEDIUM,
        "Conditions attribute=pattern on the clients, all of which have to hold. Without any, all clients push.")
# fmt: on


CLIENT_METRICS_CONFIGS: Final = ConfigDef(ClientMetricsConfigs)


def check_client_metrics(configs: Mapping[str, str]) -> None:
    """Validate the configs of one subscription. Raises InvalidConfig, and ClientMetricsRequestError."""
    for name in configs:
        if name not in CLIENT_METRICS_CONFIGS.keys:
            raise ClientMetricsRequestError(f"Unknown client metrics configuration: {name}")
    values = ClientMetricsConfigs(CLIENT_METRICS_CONFIGS.parse(configs))
    if not INTERVAL_MS_MIN <= values.interval_ms <= INTERVAL_MS_MAX:
        raise ClientMetricsRequestError(
            f"Invalid value {values.interval_ms} for {ClientMetricsConfigs.interval_ms.name}, interval must be between "
            f"{INTERVAL_MS_MIN} and {INTERVAL_MS_MAX} (1 hour)"
        )
    client_patterns(values.match)


def client_patterns(conditions: Sequence[str]) -> "dict[str, Regex]":
    """The patterns of a `match` list by the client attribute that they apply to; the last one of an attribute counts.

    Raises InvalidConfig for a condition that is not `attribute=pattern`.
    """
    last: dict[str, str] = {}
    for condition in conditions:
        # Java splits at each "=", and drops empty parts at the end.
        attribute, *patterns = condition.rstrip("=").split("=")
        if len(patterns) != 1 or attribute.strip() not in CLIENT_ATTRIBUTES:
            raise InvalidConfig(f"Illegal client matching pattern: {condition}")
        last[attribute.strip()] = condition
    return {attribute: _compile(condition) for attribute, condition in last.items()}


def _compile(condition: str) -> "Regex":
    from metadata.regex.matching import RegexError, compile_regex  # for start-up time

    pattern = condition.rstrip("=").partition("=")[2].strip()
    try:
        if len(pattern) > PATTERN_LENGTH_MAX:
            raise RegexError(f"it is longer than {PATTERN_LENGTH_MAX} characters")
        return compile_regex(pattern)
    except RegexError as error:
        raise InvalidConfig(f"Illegal client matching pattern: {condition}") from error
