"""The assignors that there are, by the names that clients and configs have for them."""

from typing import Final

from broker.coordinator.group.assignors.assignor import Assignor
from broker.coordinator.group.assignors.range import assign_ranges
from broker.coordinator.group.assignors.uniform import assign_uniformly

ASSIGNORS: Final[dict[str, Assignor]] = {"uniform": assign_uniformly, "range": assign_ranges}
# Under which configs may name them as well.
CLASS_NAMES: Final = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}
