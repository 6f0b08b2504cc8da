"""Prints records as they come, for the console consumers: what they have in common."""

import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import trio

from broker.cli.kafka_tools.clients import command_config, key_values
from broker.cli.kafka_tools.options import Options, ToolExit, option
from broker.cli.kafka_tools.record_formats import FormatError, Formatter, Record, make_formatter
from broker.cli.printing import print_text

DEFAULT_FORMATTER: Final = "org.apache.kafka.tools.consumer.DefaultMessageFormatter"
FORMATTER_PROPERTIES: Final = option(
    "formatter-property",
    "key=value",
    "A property of the formatter: print.timestamp, print.partition, print.offset, print.delivery, print.epoch, "
    "print.headers, print.key, print.value, key.separator, line.separator, headers.separator, null.literal, "
    "key.deserializer, value.deserializer, headers.deserializer.",
)


def make_record_formatter(options: Options) -> Formatter:
    """Returns the formatter that the options choose. Raises UsageFailure."""
    properties = command_config(options, "formatter-config")
    for name in ("key", "value"):
        if options.value(f"{name}-deserializer"):
            properties[f"{name}.deserializer"] = options.value(f"{name}-deserializer")
    name = options.renamed("property", "formatter-property")
    properties |= key_values(options.values(name))
    try:
        return make_formatter(options.value("formatter"), properties, is_rendered=sys.stdout.isatty())
    except FormatError as error:
        raise options.failure(str(error)) from error


class RecordPrinter:
    """Prints records, and counts them.

    A record that cannot be printed ends the tool, unless `on_error` names what happens to it instead, as "skipping".
    """

    def __init__(self, formatter: Formatter, *, on_error: str | None) -> None:
        self.count = 0
        self._formatter = formatter
        self._on_error = on_error

    def print(self, records: Sequence[Record]) -> bool:
        """Prints records. Returns False if one of them could not be printed.

        Raises ToolExit for such a record, see the class, and BrokenPipeError if the reader of the output has gone.
        """
        lines, are_printed = [], True
        try:
            for record in records:
                self.count += 1
                try:
                    lines.append(self._formatter(record))
                except FormatError as error:
                    if self._on_error is None:
                        raise ToolExit(1, f"ERROR Unknown error when running consumer: {error}") from error
                    are_printed = False
                    print_text(
                        f"ERROR Error processing message, {self._on_error} this message: {error}", file=sys.stderr
                    )
        finally:
            sys.stdout.buffer.write(b"".join(lines))
            sys.stdout.buffer.flush()
        return are_printed


def print_end(reason: str) -> None:
    print_text(f"ERROR Error processing message, terminating consumer process: \n{reason}", file=sys.stderr)


async def until_interrupted(call: Callable[[], Awaitable[None]]) -> int | None:
    """Runs `call` until it returns, or until SIGINT (a terminal's Ctrl-C) or SIGTERM (which `timeout` sends) arrives.

    Returns the signal's number, or None. Raises what `call` raises, not in a group.
    """
    received: list[int] = []
    failure: Exception | None = None
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:

            async def wait() -> None:
                async for number in signals:
                    received.append(number)
                    nursery.cancel_scope.cancel()

            nursery.start_soon(wait)
            try:
                await call()
            except Exception as error:  # noqa: BLE001 - raised again below, outside the nursery
                failure = error
            nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return received[0] if received else None
