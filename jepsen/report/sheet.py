"""The state that the panels of the timeline share: the axis of time, and the height so far."""

from typing import Final

import attrs

from jepsen.report.markup import Markup, element
from jepsen.report.scales import Linear

WIDTH: Final = 1120.0
LEFT: Final = 92.0
RIGHT: Final = 8.0
GAP: Final = 30.0


@attrs.define
class Sheet:
    """The elements that were drawn so far, and their total height."""

    x: Linear
    y: float = 0.0
    parts: list[Markup] = attrs.field(factory=list)

    def title(self, text: str, *legend: Markup) -> None:
        self.y += GAP
        self.parts.append(element("text", text, class_="panel", x=0, y=self.y - 9))
        self.parts.extend(legend)

    def label(self, text: str, y: float) -> None:
        self.parts.append(element("text", text, class_="row-label", x=LEFT - 10, y=y))

    def bar(self, begin: float, end: float, y: float, height: float, title: str, **attributes: str | float) -> None:
        """Draw a rectangle from one time to another, with a minimum width."""
        start = self.x(begin)
        width = max(self.x(end) - start, 1.5)
        self.parts.append(
            element("rect", element("title", title), x=start, y=y, width=width, height=height, **attributes)
        )
