"""Which voters seem to have died a moment ago."""

import trio
from trio.testing import MockClock

from kraft.peers import Peers
from tests.support.raft_core import KEYS, SingleCore


async def test_lost_voter_counts_as_recently_lost_for_a_second(autojump_clock: MockClock) -> None:
    peers = Peers(SingleCore(1).core)
    peers.lost(2)
    peers.lost(77)  # not a voter
    await trio.sleep(0.9)
    assert peers.recently_lost() == [2]
    peers.lost(3)
    await trio.sleep(0.2)
    assert peers.recently_lost() == [3]
    peers.lost(2)  # refused again
    assert peers.recently_lost() == [2, 3]


async def test_voter_that_is_heard_is_not_lost(autojump_clock: MockClock) -> None:
    peers = Peers(SingleCore(1).core)
    peers.lost(2)
    peers.lost(3)
    peers.heard(2)
    assert not peers.check_sender(KEYS[3])
    assert peers.recently_lost() == []
