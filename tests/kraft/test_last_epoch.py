"""A replica whose epoch is at the end of the range refuses to start, and tells the operator what to do."""

import pytest

from kraft.core import ElectionState, QuorumConfig, ReplicaKey, VoterSet
from kraft.core.plausible_epochs import EPOCH_END
from kraft.log import QuorumStateFile
from kraft.recovery import EpochsExhausted, recover
from tests.support.volatile_disk import VolatileDisk


@pytest.mark.parametrize("epoch", [EPOCH_END - 1, 2**31 - 1])
async def test_replica_at_the_last_epoch_refuses_to_start(epoch: int) -> None:
    disk = VolatileDisk()
    disk.make_dir("/data")
    await (await QuorumStateFile.open(disk, "/data")).save(ElectionState(epoch))
    with pytest.raises(EpochsExhausted, match=f"Epoch {epoch} in /data .* remove and add it"):
        await recover(disk, "/data", VoterSet(), QuorumConfig(ReplicaKey(1)))


async def test_replica_below_the_last_epoch_starts() -> None:
    disk = VolatileDisk()
    disk.make_dir("/data")
    await (await QuorumStateFile.open(disk, "/data")).save(ElectionState(EPOCH_END - 2))
    assert (await recover(disk, "/data", VoterSet(), QuorumConfig(ReplicaKey(1)))).election.state.epoch == EPOCH_END - 2
