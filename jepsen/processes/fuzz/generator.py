"""A process that runs stories against a node: options are JSON on the command line, counts are lines of JSON."""

import json
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

import attrs
import trio

from jepsen.hostile.target import Target
from jepsen.processes.fuzz.story_runner import StoryRunner

_REPORT_S: Final = 0.5


@attrs.frozen
class Plan:
    """Stories `first`, `first + step`, ... until `frames` were sent, `stories` were run, or `seconds` are over."""

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
            tuple(map(tuple, target["sasl_apis"])),
        )


def _stories(plan: Plan, runner: StoryRunner) -> Iterator[int]:
    ends_at = time.monotonic() + plan.seconds
    story = plan.first
    for _ in range(plan.stories):
        if runner.counts.total >= plan.frames or time.monotonic() > ends_at:
            return
        runner.last_story = story
        yield story
        story += plan.step


async def _generate(plan: Plan) -> None:
    runner = StoryRunner(plan.known_target, plan.port_of, plan.ports, plan.seed)
    stories = _stories(plan, runner)
    error = ""
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_report_regularly, runner)
            async with trio.open_nursery() as lanes:
                for _ in range(plan.lanes):
                    lanes.start_soon(runner.run, stories)
            nursery.cancel_scope.cancel()
    except* (OSError, trio.TooSlowError) as group:
        error = f"the node takes no connection: {group.exceptions!r}"
    _report(runner, error, has_ended=True)


async def _report_regularly(runner: StoryRunner) -> None:
    while True:
        await trio.sleep(_REPORT_S)
        _report(runner, "", has_ended=False)


def _report(runner: StoryRunner, error: str, *, has_ended: bool) -> None:
    report = {**attrs.asdict(runner.counts), "under_way": sorted(runner.under_way), "last_story": runner.last_story}
    report |= {"error": error, "ended": has_ended}
    print(json.dumps(report), flush=True)


if __name__ == "__main__":
    trio.run(_generate, Plan.read(sys.argv[1]))
