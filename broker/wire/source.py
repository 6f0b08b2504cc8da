"""Builds the source of one Python function; shared by the two compilers.

Adjacent fields of fixed width are collected in a run and become a single call of `struct`: in Python, the cost of
decoding and encoding is the number of calls, not of bytes.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from struct import Struct
from typing import Any, Final

_INDENT = "    "
# The amount that sliced functions decode or encode between two yields: some 100 us of work.
STEP_ELEMENTS: Final = 64


class Source:
    """Lines of one function's source, the objects it refers to, and the run of fixed-width fields not yet emitted."""

    def __init__(self, **namespace: object) -> None:
        self.namespace: dict[str, Any] = namespace
        self.lines: list[str] = []
        self.run: list[tuple[str, str]] = []  # code letter of `struct`, variable or expression
        self._depth = 0
        self._names = 0

    def line(self, text: str) -> None:
        self.lines.append(_INDENT * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self._depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self._depth -= 1

    def name(self, prefix: str) -> str:
        """A variable name that is not in use."""
        self._names += 1
        return f"{prefix}{self._names}"

    def bind(self, value: object, prefix: str = "k") -> str:
        """A name under which the function finds this object."""
        name = self.name(prefix)
        self.namespace[name] = value
        return name

    def struct_method(self, codes: Sequence[str], method: str) -> str:
        """Binds a method of the big-endian `struct.Struct` with these codes, and returns its name in the source."""
        name = f"{method}_{''.join(codes)}".replace("?", "bool")
        if name not in self.namespace:
            self.namespace[name] = getattr(Struct(">" + "".join(codes)), method)
        return name

    def function(self, name: str, file: str) -> Any:
        """Compile the lines and return the function `name` that they define; `file` is what tracebacks call them."""
        assert not self.run, "fields were collected and never emitted"
        exec(compile("\n".join(self.lines), f"<{file}>", "exec"), self.namespace)
        return self.namespace[name]
