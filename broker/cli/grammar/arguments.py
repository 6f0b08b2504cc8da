"""Arguments with a form of their own: topics and partitions, times, sizes, durations."""

import re
from collections.abc import Callable, Iterable
from math import inf
from typing import Any, Final, TypeAlias, TypeVar

import click

from broker.cli.grammar.units import INT64_MAX, is_digits, parse_duration_ms, parse_number, parse_size, parse_time_ms

F = TypeVar("F", bound=Callable[..., Any])
V = TypeVar("V")
# A topic, and the partitions of it that are meant; None for all.
TopicPartitions: TypeAlias = tuple[str, tuple[int, ...] | None]
INT32_MAX: Final = 2**31 - 1
INT16_MAX: Final = 2**15 - 1
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
# More than a topic can have in practice. A longer range is a typing error, and would fill the memory.
_RANGE_MAX: Final = 1_000_000


class Parsed(click.ParamType[V]):
    """A parameter that `parse` reads; its ValueError is the message of a usage error."""

    def __init__(self, name: str, parse: Callable[[str], V]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> V:
        try:
            return self._parse(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(f"{error}.", param, ctx)


class Integer(click.IntRange):
    """A whole number in ASCII digits, by default of 64 bits. Python itself also takes `1_000` and other digits."""

    def __init__(self, lowest: int = -INT64_MAX - 1, highest: int = INT64_MAX) -> None:
        super().__init__(lowest, highest)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and not _INTEGER.fullmatch(value):
            self.fail(f"{value!r} is not a whole number.", param, ctx)
        return super().convert(value, param, ctx)

    def _describe_range(self) -> str:
        """The bounds for the help; the one of 64 bits goes without saying."""
        if self.max != INT64_MAX:
            return super()._describe_range()
        return "" if self.min == -INT64_MAX - 1 else f"x>={self.min}"


def _parse_rate(text: str) -> float:
    rate = parse_number(text)
    if not 0 < rate < inf:
        raise ValueError(f"{text!r} is not a number above 0")
    return rate


def _parse_byte_rate(text: str) -> int:
    rate = parse_size(text.strip().removesuffix("/s"))
    if not rate:
        raise ValueError(f"{text!r} is not a rate above 0")
    return rate


def _parse_ids(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(map(is_digits, parts)):
        raise ValueError(f"{text!r}: write ids, as in 1,2,3")
    return list(dict.fromkeys(map(int, parts)))


IDS: Final = Parsed("ids", _parse_ids)
SIZE: Final = Parsed("size", parse_size)
DURATION: Final = Parsed("duration", parse_duration_ms)
RATE: Final = Parsed("rate", _parse_rate)
BYTE_RATE: Final = Parsed("rate", _parse_byte_rate)


def parse_topic_partitions(text: str) -> TopicPartitions:
    """A topic, and some of its partitions where it names them: `orders`, `orders:0,3-5`. Raises ValueError."""
    topic, colon, numbers = text.partition(":")
    if not topic or (colon and not numbers):
        raise ValueError(f"{text!r} names no topic; write for example orders, or orders:0,3-5")
    return topic, tuple(_numbers(numbers, text)) if colon else None


def _numbers(numbers: str, text: str) -> Iterable[int]:
    for part in numbers.split(","):
        first, dash, last = part.partition("-")
        if not is_digits(first) or (dash and not is_digits(last)):
            raise ValueError(f"{text!r} names no partitions; write for example orders:0,3-5")
        low, high = int(first), int(last or first)
        if not low <= high <= INT32_MAX or high - low >= _RANGE_MAX:
            raise ValueError(f"{text!r} names impossible partitions")
        yield from range(low, high + 1)


TOPIC_PARTITIONS: Final = Parsed("topic", parse_topic_partitions)


def topic_option(help: str, *, required: bool = False) -> Callable[[F], F]:
    """Adds `--topic`, which may be repeated. The command gets all values as `topics`."""
    metavar = "TOPIC[:PARTITION,...]"
    return click.option(
        "-t", "--topic", "topics", type=TOPIC_PARTITIONS, multiple=True, required=required, metavar=metavar, help=help
    )


def parse_time(text: str, now_ms: int) -> int:
    """Milliseconds since 1970; see `parse_time_ms`. Raises UsageError."""
    try:
        return parse_time_ms(text, now_ms)
    except ValueError as error:
        raise click.UsageError(f"{error}.", click.get_current_context()) from error
