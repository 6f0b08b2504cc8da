"""The windows over which rates are measured, and the throttle time in a response."""

from math import floor
from typing import Final

import attrs

_INT32_MAX: Final = 2**31 - 1


@attrs.frozen
class QuotaWindows:
    """`num` windows of `size_seconds`: `quota.window.num` and `.size.seconds`, or the same of `controller.quota`."""

    num: int
    size_seconds: int

    @property
    def seconds(self) -> int:
        """The time of all windows. A token bucket holds what a quota allows in it."""
        return self.num * self.size_seconds

    @property
    def burst_seconds(self) -> int:
        """A client that was idle may use at once what its quota allows in this time."""
        return (self.num - 1) * self.size_seconds

    @property
    def window_ms(self) -> int:
        return self.size_seconds * 1000


def throttle_time_ms(delay_ms: float) -> int:
    """Rounded as in Kafka, half a millisecond up; at most what fits into the field of a response."""
    return max(0, floor(min(delay_ms + 0.5, _INT32_MAX)))
