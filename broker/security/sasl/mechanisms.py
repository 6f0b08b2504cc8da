"""The names of the mechanisms that this release has."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from broker.security.sasl.oauthbearer import MECHANISM as OAUTHBEARER
from broker.security.sasl.plain import PLAIN
from metadata.protocol import ScramMechanism

SCRAM_MECHANISMS: Final[Mapping[str, ScramMechanism]] = MappingProxyType(
    {each.sasl_name: each for each in ScramMechanism if each is not ScramMechanism.UNKNOWN}
)
MECHANISMS: Final = (PLAIN, *SCRAM_MECHANISMS, OAUTHBEARER)
