"""Tables as Kafka's tools print them: left-aligned columns with one blank between them."""

from collections.abc import Sequence


def row(widths: Sequence[int], cells: Sequence[object]) -> str:
    """Formats a line. A width of 0 leaves its cell unpadded."""
    return " ".join(f"{cell!s:<{width}}" if width else str(cell) for width, cell in zip(widths, cells, strict=True))


def width_of(cells: Sequence[str], least: int) -> int:
    """The width of a column with these cells."""
    return max([least, *map(len, cells)])
