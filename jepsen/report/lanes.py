"""Draws each group: its members' uptimes, the owners of partitions, and the group's lag."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from jepsen.report.findings import Findings
from jepsen.report.groups import Claim, GroupTimeline
from jepsen.report.markup import Markup, element
from jepsen.report.scales import clock, quantity
from jepsen.report.sheet import LEFT, Sheet

_MEMBER_HEIGHT, _MEMBER_STEP = 7.0, 12.0
_LANE_HEIGHT, _LANE_GAP = 13.0, 2.0
# The height of the bar of a member that does not know yet that the partition has another owner.
_ZOMBIE_HEIGHT: Final = 4.0
_BEHIND_HEIGHT: Final = 26.0
# The number of members with a distinct color.
_COLORS: Final = 6
# The space that the number of a generation needs.
_NUMBER_WIDTH: Final = 15.0
_TITLE_CHARACTER_WIDTH: Final = 6.6
_SPACE: Final = 5.0


def groups(page: Sheet, found: Findings) -> None:
    """Draw all groups; nothing if there are none."""
    for timeline in found.groups:
        what = found.plan.parameters.get(timeline.name)
        title = f"group {timeline.name}" + (f": {what}" if what else "")
        page.title(title)
        top = page.y
        _members(page, timeline, found.end)
        page.y += _SPACE
        _generations(page, timeline, top, len(title) * _TITLE_CHARACTER_WIDTH)
        for partition, claims in timeline.claims.items():
            _lane(page, timeline, partition, claims)
        _behind(page, timeline, found)


def color(timeline: GroupTimeline, place: str) -> str:
    return f"m{timeline.places.index(place) % _COLORS}"


def _members(page: Sheet, timeline: GroupTimeline, until: float) -> None:
    for place, uptimes in timeline.uptimes.items():
        page.label(place, page.y + _MEMBER_HEIGHT + 0.5)
        for uptime in uptimes:
            end = until if uptime.ended_at is None else min(uptime.ended_at, until)
            if uptime.began_at >= until:
                continue
            title = f"{place} from {clock(uptime.began_at)}" + (f", {uptime.end} at {clock(end)}" if uptime.end else "")
            page.bar(
                uptime.began_at, end, page.y, _MEMBER_HEIGHT, title, class_=f"member {color(timeline, place)}", rx=3
            )
            if uptime.end == "killed":
                page.parts.append(_cross(page.x(end), page.y + _MEMBER_HEIGHT / 2))
        for before, after in pairwise(uptimes):
            if before.end == "paused" and before.ended_at is not None:
                title = f"{place} stands still from {clock(before.ended_at)} to {clock(after.began_at)}"
                y = page.y + _MEMBER_HEIGHT / 2 - 0.75
                page.bar(before.ended_at, after.began_at, y, 1.5, title, class_=f"member {color(timeline, place)}")
        page.y += _MEMBER_STEP


def _cross(x: float, y: float) -> Markup:
    return element("path", element("title", "kill -9"), class_="killed", d=f"M{x - 3:.1f},{y - 3:.1f} l6,6 m0,-6 l-6,6")


def _generations(page: Sheet, timeline: GroupTimeline, top: float, free: float) -> None:
    """Draw a line at the first event of each generation, and its number if there is space right of `free`."""
    bottom = page.y + len(timeline.claims) * (_LANE_HEIGHT + _LANE_GAP) - _LANE_GAP
    for since, number in timeline.generations:
        x = page.x(since)
        page.parts.append(element("line", class_="generation", x1=x, x2=x, y1=top - 4, y2=bottom))
        if x >= free:
            title = f"generation {number} at {clock(since)}"
            page.parts.append(
                element("text", element("title", title), f"{number}", class_="generation-number", x=x, y=top - 6)
            )
            free = x + _NUMBER_WIDTH


def _lane(page: Sheet, timeline: GroupTimeline, partition: str, claims: Sequence[Claim]) -> None:
    page.label(partition, page.y + _LANE_HEIGHT - 2)
    page.bar(page.x.low, page.x.high, page.y, _LANE_HEIGHT, f"{partition} has no owner", class_="nobody", rx=2)
    for index, claim in enumerate(claims):
        following = min((each.begin for each in claims[index + 1 :]), default=claim.end)
        end = min(claim.end, following)
        generation = f" in generation {claim.generation}" if claim.generation >= 0 else ""
        title = f"{partition} is {claim.place}'s{generation}, {_span(claim)}"
        page.bar(claim.begin, end, page.y, _LANE_HEIGHT, title, class_=f"claim {color(timeline, claim.place)}", rx=2)
    for index, claim in enumerate(claims):
        following = min((each.begin for each in claims[index + 1 :]), default=claim.end)
        if following < claim.end:
            title = f"{claim.place} does not know that {partition} has another owner, {_span(claim)}"
            y = page.y + _LANE_HEIGHT - _ZOMBIE_HEIGHT
            class_ = f"zombie {color(timeline, claim.place)}"
            page.bar(following, claim.end, y, _ZOMBIE_HEIGHT, title, class_=class_)
    page.y += _LANE_HEIGHT + _LANE_GAP


def _span(claim: Claim) -> str:
    return f"from {claim.begin:.1f} s to {claim.end:.1f} s"


def _behind(page: Sheet, timeline: GroupTimeline, found: Findings) -> None:
    """Draw the group's lag over time."""
    page.y += _SPACE
    most, bins = max(timeline.lag, default=0.0), found.bins
    bottom = page.y + _BEHIND_HEIGHT
    page.label("behind", bottom - 2)
    page.parts.append(element("line", class_="grid", x1=LEFT, x2=page.x.end, y1=bottom, y2=bottom))
    if most:
        points = " ".join(
            f"{page.x(min((index + side) * bins.width, found.end)):.1f},{bottom - value / most * _BEHIND_HEIGHT:.1f}"
            for index, value in enumerate(timeline.lag)
            for side in (0, 1)
        )
        area = f"{LEFT:g},{bottom:.1f} {points} {page.x.end:.1f},{bottom:.1f}"
        title = f"at most {quantity(most)} records behind"
        page.parts.append(element("polygon", element("title", title), class_="behind", points=area))
        page.parts.append(element("text", title, class_="tick figures", x=page.x.end, y=page.y + 8))
    page.y = bottom
