"""A channel to the active controller, with a quorum whose leader the test sets."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import attrs
import trio

from broker.controller_client.channel import ControllerChannel, LocalController
from kraft.env import Env, RealDisk
from kraft.replicated_log import Leadership
from tests.support.running_node import Traced

ME = 9


@attrs.define
class Announced:
    """The replica of a quorum, whose state the test sets."""

    leadership: Leadership = attrs.field(factory=lambda: Leadership(None, 0))
    leader_address: str | None = None
    node_id: int = ME
    is_majority_absent: bool = False


class ControllerChannelHarness:
    """The channel of node ME and the quorum that it reads. `env` traces to `traced`."""

    def __init__(self, local: LocalController | None, request_timeout_ms: float) -> None:
        self.traced = Traced()
        self.env = Env(disk=RealDisk(), rng=Random(1), wall=lambda: 0.0, trace=self.traced)
        self.quorum = Announced()
        self.channel = ControllerChannel(
            self.env, self.quorum, local, client_id=f"broker-{ME}", request_timeout_ms=request_timeout_ms
        )

    def announce(self, leader_id: int | None, epoch: int, address: str | None = None) -> None:
        self.quorum.leadership = Leadership(leader_id, epoch)
        self.quorum.leader_address = address
        self.channel.handle_leader_change(self.quorum.leadership)

    def lose_majority(self) -> None:
        """Let the processes of most voters end."""
        self.quorum.is_majority_absent = True
        self.channel.handle_connection_reset(ME + 1)


@asynccontextmanager
async def controller_channel_harness(
    *, local: LocalController | None = None, request_timeout_ms: float = 5_000
) -> AsyncIterator[ControllerChannelHarness]:
    """Run the channel within the block."""
    harness = ControllerChannelHarness(local, request_timeout_ms)
    async with trio.open_nursery() as nursery:
        await nursery.start(harness.channel.run)
        yield harness
        nursery.cancel_scope.cancel()
