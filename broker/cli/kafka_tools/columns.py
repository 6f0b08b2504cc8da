"""Tables as Kafka's tools print them: left-aligned columns with one blank between them."""

from collections.abc import Sequence

from broker.printable import printable


def row(widths: Sequence[int], cells: Sequence[object]) -> str:
    """Formats a line. A width of 0 leaves its cell unpadded."""
    shown = [printable(str(cell)) for cell in cells]
    return " ".join(f"{cell:<{width}}" if width else cell for width, cell in zip(widths, shown, strict=True))


def width_of(cells: Sequence[str], least: int) -> int:
    """The width of a column with these cells."""
    return max([least, *(len(printable(cell)) for cell in cells)])
