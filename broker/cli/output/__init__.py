"""The output of commands: tables, lines, JSON, progress bars."""

from broker.cli.output.printer import Printer
from broker.cli.output.shapes import Column, Shape, lines_of, list_of, one

__all__ = ["Column", "Printer", "Shape", "lines_of", "list_of", "one"]
