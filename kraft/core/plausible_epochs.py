"""Which epochs a replica believes when another replica tells it one.

A replica that hears of a higher epoch enters it, and never goes back below (Raft's paper, section 5.1). So one message
of a broken peer with an epoch near the end of the range would leave the whole quorum without a next epoch, for ever.
"""

from typing import Final

# Epochs from here on are never entered. What is left of the range of 32 bits is a margin: an epoch can always be
# written down, and so can the one after it.
EPOCH_END: Final = 2**31 - 2**16
# One peer alone is believed so many epochs at once: the replica may have missed 18 hours of an election per second.
LEAP: Final = 2**16
# And so many more for each second that this replica has run since. At this rate the end is seven years away.
EPOCHS_PER_SECOND: Final = 10


class PlausibleEpochs:
    """What other replicas have told since this one started, at `now_ms`."""

    def __init__(self, now_ms: float) -> None:
        self._started_ms = now_ms
        self._believed = 0
        self._told: dict[int, int] = {}

    def believe(self, own: int, told: int, source: int, now_ms: float) -> bool:
        """True if `told`, an epoch above `own` that replica `source` names, is a plausible successor of `own`.

        An epoch is plausible if it is below EPOCH_END, and

        - at least two replicas have told it or a higher one: a replica that was partitioned, paused or restored from a
          backup may be any number of epochs behind, and hears the same from every replica that it asks; or
        - the epochs that this replica was led through by single peers since it started are at most LEAP, and
          EPOCHS_PER_SECOND for each second since then. An election raises the epoch by one and takes a majority's
          pre-votes, so an honest quorum stays far below that.

        A replica that knows of no epoch and does not vote (a new observer) has nothing to compare with: see
        `elections.see_epoch`.
        """
        self._told = {each: epoch for each, epoch in self._told.items() if epoch > own}
        self._told[source] = max(told, self._told.get(source, told))
        if told >= EPOCH_END:
            return False
        if sum(epoch >= told for epoch in self._told.values()) >= 2:
            return True
        credit = LEAP + EPOCHS_PER_SECOND * (now_ms - self._started_ms) / 1000
        if self._believed + told - own > credit:
            return False
        self._believed += told - own
        return True
