"""The check of epochs that other replicas send, which bounds the damage of a faulty peer.

A replica that receives a higher epoch enters it, and never returns to a lower one (Raft's paper, section 5.1). One
message of a faulty peer with an epoch near the end of the range would leave the quorum without a next epoch
permanently.

The check depends only on the epoch and the wall clock, which are the same for all replicas: an epoch that one replica
accepted is accepted by every other one. A check relative to the replica's own epoch would lack this property. A faulty
peer could raise one replica's epoch in many small steps. The others would then refuse that replica's epoch as too large
a step, and a correct replica would be excluded from its quorum.
"""

from typing import Final

# Epochs from here on are never entered. The rest of the range of 32 bits is a margin, so that an epoch and the one
# after it can always be encoded.
EPOCH_END: Final = 2**31 - 2**16
# The beginning of 2020, in seconds since 1970. No quorum is older.
COUNTED_FROM_S: Final = 1_577_836_800
# Epochs up to here are accepted at any time, because a clock that was never set may show 1970.
ALWAYS_BELIEVED: Final = 2**20


def is_plausible(epoch: int, wall_s: float) -> bool:
    """True if a quorum can have reached `epoch` at the time `wall_s`, with one election per second since 2020.

    An election raises the epoch by one and needs the pre-votes of a majority, so a correct quorum stays far below that
    limit. A faulty peer can raise the epoch to the limit at once (two hundred million in 2026), and by one per second
    from then on, which reaches the end of the range in 2088. Differences between clocks matter only at the limit.
    """
    return epoch < EPOCH_END and epoch <= max(ALWAYS_BELIEVED, wall_s - COUNTED_FROM_S)
