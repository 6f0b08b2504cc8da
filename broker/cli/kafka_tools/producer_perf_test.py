"""kafka-producer-perf-test: how fast a producer writes (ProducerPerformance.java). Transactions are not supported."""

import argparse
import sys
from collections.abc import Callable, Sequence
from random import Random
from typing import Final, TypeAlias

import trio

from broker.cli.kafka_tools.argument_parser import ToolParser
from broker.cli.kafka_tools.clients import client_configs, key_values, read_properties
from broker.cli.kafka_tools.errors import exception_of
from broker.cli.kafka_tools.files import read_file
from broker.cli.kafka_tools.latencies import Latencies
from broker.cli.kafka_tools.options import UsageFailure, integer, long
from broker.cli.printing import print_text
from broker.client import BufferFull, Producer
from broker.client.environment import Environment
from broker.client.producer.config import ProducerConfig
from broker.client.types import RecordMetadata

# Returns the value of a record by its number.
_Payloads: TypeAlias = Callable[[int], bytes]

_LETTERS: Final = bytes(65 + code % 26 for code in range(256))
_POOL_BYTES: Final = 1 << 20

_PAYLOADS: Final = "Note that you must provide exactly one of --record-size, --payload-file or --payload-monotonic."
# How many records are handed over before the tasks that send them have a turn.
_RECORDS_AT_ONCE: Final = 64
_SLEEP_MIN_S: Final = 0.002


def _random_payloads(size: int, rng: Random) -> _Payloads:
    """Random capital letters, cut out of a pool: to draw each letter would take longer than to send it."""
    pool = rng.randbytes(_POOL_BYTES + size).translate(_LETTERS)

    def payload(number: int) -> bytes:
        start = rng.randrange(_POOL_BYTES)
        return pool[start : start + size]

    return payload


def _payloads_of_file(path: str, delimiter: str, rng: Random) -> _Payloads:
    """The parts of a file, in random order. Raises UsageFailure, ToolExit."""
    print_text(f"Reading payloads from: {path}")
    parts = read_file(path).removesuffix(delimiter).split(delimiter)
    if parts == [""]:
        raise UsageFailure("File does not exist or empty file provided.")
    print_text(f"Number of records read: {len(parts)}")
    encoded = [part.encode() for part in parts]
    return lambda number: rng.choice(encoded)


def _monotonic_payloads(number: int) -> bytes:
    """Returns the number as text: 0, 1, 2 and so on."""
    return b"%d" % number


def _parser() -> argparse.ArgumentParser:
    parser = ToolParser("kafka-producer-perf-test", description="This tool is used to verify the producer performance.")
    parser.add_argument("--bootstrap-server", help="The brokers to connect to.")
    parser.add_argument("--topic", required=True, help="The topic.")
    parser.add_argument("--num-records", required=True, type=long, help="How many records to write.")
    parser.add_argument("--throughput", required=True, type=float, help="Records per second; -1 for no limit.")
    payload = parser.add_mutually_exclusive_group(required=True)
    payload.add_argument("--record-size", type=integer, help=f"The size of random values. {_PAYLOADS}")
    payload.add_argument("--payload-file", help=f"A file with values. {_PAYLOADS}")
    payload.add_argument("--payload-monotonic", action="store_true", help=f"Values are numbers. {_PAYLOADS}")
    parser.add_argument("--payload-delimiter", default="\\n", help="The separator of the values in the file.")
    parser.add_argument("--command-property", nargs="+", metavar="KEY=VALUE", help="Configs of the producer.")
    parser.add_argument("--producer-props", nargs="+", metavar="KEY=VALUE", help="The old name of --command-property.")
    parser.add_argument("--command-config", metavar="FILE", help="A properties file with configs of the producer.")
    parser.add_argument(
        "--producer.config", dest="producer_config", metavar="FILE", help="The old name of --command-config."
    )
    parser.add_argument("--print-metrics", action="store_true", help="Ignored: this producer keeps no metrics.")
    parser.add_argument(
        "--warmup-records", type=long, default=0, help="Records to write before the steady state is measured."
    )
    parser.add_argument("--reporting-interval", type=long, default=5_000, help="Milliseconds between reports.")
    parser.add_argument("--transactional-id", help="Not supported.")
    parser.add_argument("--transaction-duration-ms", type=long, help="Not supported.")
    return parser


async def run(arguments: Sequence[str]) -> int:
    """Runs the tool and returns its exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    _check(parser, options)
    environment = Environment()
    payloads = _payloads(options, environment)
    configs = _configs(options)
    servers = configs.pop("bootstrap.servers", None)
    now_ms = environment.now_ms
    if options.warmup_records > 0:
        print_text(
            f"Warmup first {options.warmup_records} records. "
            "Steady state results will print after the complete test summary."
        )
    load = _Load(options, payloads, environment)
    async with Producer(servers, config=client_configs(ProducerConfig, configs)) as producer:
        await load.run(producer)
    for latencies in load.latencies:
        print_text(latencies.total_line(now_ms()))
    return 0


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Checks the options. Raises UsageFailure."""
    warmup = "--warmup-records must be strictly fewer than the number of records in the test, --num-records."
    both = "cannot be specified together."
    problems = {
        "--num-records should be greater than zero.": options.num_records <= 0,
        f"The value for {warmup}": options.warmup_records >= options.num_records,
        "--record-size should be greater than zero.": options.record_size is not None and options.record_size <= 0,
        "--reporting-interval should be greater than zero.": options.reporting_interval <= 0,
        f"--command-property and --producer-props {both}": options.command_property and options.producer_props,
        f"--command-config and --producer.config {both}": options.command_config and options.producer_config,
        "This cluster does not support transactions; leave out --transactional-id and --transaction-duration-ms.": (
            options.transactional_id is not None or options.transaction_duration_ms is not None
        ),
    }
    for problem, is_so in problems.items():
        if is_so:
            parser.error(problem)


def _configs(options: argparse.Namespace) -> dict[str, str]:
    """Returns the producer's configs. Raises ToolExit."""
    for old, new in (("producer_props", "command_property"), ("producer_config", "command_config")):
        if getattr(options, old):
            shown = {"producer_props": "--producer-props", "producer_config": "--producer.config"}[old]
            print_text(
                f"Option {shown} has been deprecated and will be removed in a future version. "
                f"Use --{new.replace('_', '-')} instead."
            )
    path = options.command_config or options.producer_config
    configs = read_properties(path) if path else {}
    configs |= key_values(options.command_property or options.producer_props or ())
    configs.setdefault("client.id", "perf-producer-client")
    if options.bootstrap_server:
        configs["bootstrap.servers"] = options.bootstrap_server
    return configs


def _payloads(options: argparse.Namespace, environment: Environment) -> _Payloads:
    if options.record_size is not None:
        return _random_payloads(options.record_size, environment.rng)
    if options.payload_file is not None:
        delimiter = "\n" if options.payload_delimiter == "\\n" else options.payload_delimiter
        return _payloads_of_file(options.payload_file, delimiter, environment.rng)
    return _monotonic_payloads


class _Load:
    """Writes the records, and counts those that are acknowledged."""

    def __init__(self, options: argparse.Namespace, payloads: _Payloads, environment: Environment) -> None:
        self._options = options
        self._payloads = payloads
        self._now_ms = environment.now_ms
        self.latencies = [Latencies(options.num_records, options.reporting_interval, self._now_ms())]

    async def run(self, producer: Producer) -> None:
        """Raises KafkaError, ClientError where the producer takes no more records."""
        options = self._options
        start_s = trio.current_time()
        for number in range(options.num_records):
            if number == options.warmup_records > 0:
                self._begin_steady_state(options)
            await self._send(producer, self._payloads(number))
            if options.throughput > 0:
                ahead_s = (number + 1) / options.throughput - (trio.current_time() - start_s)
                if ahead_s > _SLEEP_MIN_S:
                    await trio.sleep(ahead_s)
            if number % _RECORDS_AT_ONCE == 0:
                await trio.lowlevel.checkpoint()
        await producer.flush()

    def _begin_steady_state(self, options: argparse.Namespace) -> None:
        self.latencies[0].is_quiet = True
        count = options.num_records - options.warmup_records
        self.latencies.append(Latencies(count, options.reporting_interval, self._now_ms(), is_steady=True))

    async def _send(self, producer: Producer, value: bytes) -> None:
        start_ms = self._now_ms()
        counting = tuple(self.latencies)

        def count(metadata: RecordMetadata | None, error: Exception | None) -> None:
            if error is not None:
                print_text(exception_of(error), file=sys.stderr)
                return
            now_ms = self._now_ms()
            for latencies in counting:
                for line in latencies.record(now_ms - start_ms, len(value), now_ms):
                    print_text(line, flush=True)

        while True:
            try:
                producer.send_soon(self._options.topic, value, on_delivery=count)
                return
            except BufferFull:
                await producer.wait_for_room()
