"""The work of the scrubber since the node started, for metrics."""

import attrs

from kraft import lazy_attrs


@lazy_attrs.define
class ScrubStatistics:
    """`damaged` counts what was found, `rebuilt` what was made again by the scrubber itself.

    `unrepaired` are the files that the scrubber could not make again, other than segments, with what is wrong.
    `last_pass_s` is the time at which the last pass was complete, in s since 1970, 0 without one.
    """

    bytes_read: int = 0
    damaged: int = 0
    rebuilt: int = 0
    passes: int = 0
    last_pass_s: float = 0.0
    unrepaired: dict[str, str] = attrs.field(factory=dict)

    def add_damage(self) -> None:
        """Count damage that is left to others to repair."""
        self.damaged += 1

    def add_rebuilt(self) -> None:
        """Count damage that was repaired at once."""
        self.damaged += 1
        self.rebuilt += 1
