"""Which epochs a replica believes when another replica tells it one.

A replica that hears of a higher epoch enters it, and never goes back below (Raft's paper, section 5.1). So one message
of a broken peer with an epoch near the end of the range would leave the whole quorum without a next epoch, for ever.

The rule looks at the epoch and at the wall clock, and at nothing that differs between replicas. What one replica has
believed, every other one believes too. A rule that counts from the replica's own epoch, or from its start, lacks that:
a broken peer leads one replica through many small steps, the others then refuse that replica's epoch as too large a
step, and an honest replica is left out of its quorum.
"""

from typing import Final

# Epochs from here on are never entered. What is left of the range of 32 bits is a margin: an epoch can always be
# written down, and so can the one after it.
EPOCH_END: Final = 2**31 - 2**16
# The beginning of 2020, in seconds since 1970. No quorum is older.
COUNTED_FROM_S: Final = 1_577_836_800
# These are believed whatever the clock says: one that was never set may stand at 1970.
ALWAYS_BELIEVED: Final = 2**20


def is_plausible(epoch: int, wall_s: float) -> bool:
    """True if a quorum can have reached `epoch` at the time `wall_s`, with one election in each second since 2020.

    An election raises the epoch by one and takes a majority's pre-votes, so an honest quorum stays far below that. A
    broken peer can raise the epoch up to there at once (two hundred million in 2026), and by one per second from then
    on, which reaches the end of the range in 2088. Clocks that differ by some seconds matter only at the very limit.
    """
    return epoch < EPOCH_END and epoch <= max(ALWAYS_BELIEVED, wall_s - COUNTED_FROM_S)
