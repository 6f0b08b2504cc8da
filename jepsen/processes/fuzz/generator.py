"""A process that tells stories to a node: options as JSON on the command line, counts as JSON lines on its output."""

import json
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

import attrs
import trio

from jepsen.hostile.target import Target
from jepsen.processes.fuzz.lanes import Lanes

_TELL_S: Final = 0.5


@attrs.frozen
class Plan:
    """Stories `first`, `first + step`, ... until `frames` were sent, `stories` told, or `seconds` are over."""

    seed: int
    first: int
    step: int
    ports: list[str]
    port_of: dict[str, int]
    target: dict[str, Any]
    lanes: int
    frames: int
    stories: int
    seconds: float

    @classmethod
    def read(cls, text: str) -> "Plan":
        return cls(**json.loads(text))

    @property
    def known_target(self) -> Target:
        target = self.target
        return Target(
            target["cluster_id"],
            target["peer_id"],
            target["epoch"],
            target["log_end_offset"],
            bytes.fromhex(target["directory_id"]),
            tuple(map(bytes.fromhex, target["topic_ids"])),
            tuple(map(tuple, target["broker_apis"])),
            tuple(map(tuple, target["controller_apis"])),
        )


def _stories(plan: Plan, lanes: Lanes) -> Iterator[int]:
    ends_at = time.monotonic() + plan.seconds
    story = plan.first
    for _ in range(plan.stories):
        if lanes.counts.total >= plan.frames or time.monotonic() > ends_at:
            return
        lanes.last_story = story
        yield story
        story += plan.step


async def _generate(plan: Plan) -> None:
    lanes = Lanes(plan.known_target, plan.port_of, plan.ports, plan.seed)
    stories = _stories(plan, lanes)
    error = ""
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_report_regularly, lanes)
            async with trio.open_nursery() as tellers:
                for _ in range(plan.lanes):
                    tellers.start_soon(lanes.run, stories)
            nursery.cancel_scope.cancel()
    except* (OSError, trio.TooSlowError) as group:
        error = f"the node takes no connection: {group.exceptions!r}"
    _report(lanes, error, has_ended=True)


async def _report_regularly(lanes: Lanes) -> None:
    while True:
        await trio.sleep(_TELL_S)
        _report(lanes, "", has_ended=False)


def _report(lanes: Lanes, error: str, *, has_ended: bool) -> None:
    told = {**attrs.asdict(lanes.counts), "under_way": sorted(lanes.under_way), "last_story": lanes.last_story}
    told |= {"error": error, "ended": has_ended}
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    trio.run(_generate, Plan.read(sys.argv[1]))
