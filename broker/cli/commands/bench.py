"""`kraft bench`: measures the records per second between this client and the cluster, and their latency."""

import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import Final

import attrs
import click
import trio

from broker.cli.grammar import ClusterCommand, CommandFailed, CommandGroup, Exit, Invocation, WrongSettings
from broker.cli.grammar.arguments import RATE, SIZE, Integer
from broker.cli.grammar.clients import open_admin, open_consumer, open_producer
from broker.cli.grammar.completion import complete_topic
from broker.cli.grammar.partitions import find_partitions
from broker.cli.grammar.units import format_count
from broker.cli.output import one
from broker.cli.output.progress import Progress
from broker.client.admin import OffsetSpec
from broker.client.producer.buffer_memory import BufferFull
from broker.client.producer.producer import Producer
from broker.client.types import RecordMetadata
from kraft.env import real_env

_COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_QUANTILES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999, "max": 1.0}
# The values, which are written in turn: fewer if they are large, so that they do not fill the memory. They are random,
# so that they compress no better than real data.
_VALUES: Final = 64
_VALUES_BYTES: Final = 64 * 1024 * 1024
# Latencies are counted in steps of 0.01 ms, so that their number does not fill the memory.
_STEPS_PER_MS: Final = 100
_FETCH_RECORDS: Final = 5_000
# After so many records the bar moves and the producer's task runs; with a rate, so many times a second.
_STEP: Final = 500
_STEPS_PER_SECOND: Final = 50


@attrs.frozen
class BenchResult:
    """The result of a benchmark. `latency_ms` has quantiles of the time from `send` to acknowledgement; empty for
    reads.

    `cpu_seconds` is the processor time of this process.
    """

    records: int
    failed: int
    bytes: int
    seconds: float
    records_per_second: float
    megabytes_per_second: float
    cpu_seconds: float
    latency_ms: dict[str, float]


@click.group("bench", cls=CommandGroup)
def bench() -> None:
    """Measure how many records a second this client and the cluster carry."""


@bench.command("produce", cls=ClusterCommand, shape=one(BenchResult))
@click.argument("topic", shell_complete=complete_topic)
@click.option("-n", "--count", type=Integer(1), default=100_000, metavar="N", help="Records; default 100000.")
@click.option("-s", "--size", type=SIZE, default="1KiB", metavar="SIZE", help="The size of a value; default 1KiB.")
@click.option("--rate", type=RATE, metavar="N", help="Records a second at most.")
@click.option("-z", "--compression", type=click.Choice(_COMPRESSIONS), help="How batches are compressed.")
@click.option(
    "--acks",
    type=click.Choice(["all", "1", "0"]),
    help="Replicas that must acknowledge a record: 0, 1 or all; default all.",
)
async def produce(
    invocation: Invocation,
    topic: str,
    count: int,
    size: int,
    rate: float | None,
    compression: str | None,
    acks: str | None,
) -> None:
    """Write records with random values."""
    async with open_producer(invocation.cluster(), {"compression.type": compression, "acks": acks}) as producer:
        values = _values(size, producer.config.max_request_size)
        await producer.partitions_for(topic)  # before the clock runs
        measured = await _measure_writes(producer, topic, count, values, rate)
    _print(invocation, measured)


@bench.command("consume", cls=ClusterCommand, shape=one(BenchResult))
@click.argument("topic", shell_complete=complete_topic)
@click.option("-n", "--count", type=Integer(1), metavar="N", help="Records; by default all.")
async def consume(invocation: Invocation, topic: str, count: int | None) -> None:
    """Read a topic from its beginning."""
    settings = invocation.cluster()
    async with open_admin(settings) as admin:
        partitions = await find_partitions(admin, [(topic, None)])
        begins = (await admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST))).raise_first()
        ends = (await admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))).raise_first()
    there = sum((ends[each] or (0,))[0] - (begins[each] or (0,))[0] for each in partitions)
    wanted = there if count is None else count
    if wanted > there or not there:
        raise CommandFailed(
            f"Topic {topic} has {format_count(there, 'record')}; `kraft bench produce {topic}` writes some"
        )
    async with open_consumer(settings, {"auto.offset.reset": "earliest", "enable.auto.commit": "false"}) as consumer:
        consumer.assign(partitions)
        read = size = 0
        began, cpu = trio.current_time(), time.process_time()
        with Progress("Reading", wanted, "records") as progress:
            while read < wanted:
                records = await consumer.fetch(min(_FETCH_RECORDS, wanted - read))
                read += len(records)
                size += sum(len(record.value or b"") + len(record.key or b"") for record in records)
                progress.show(read)
        seconds, cpu = trio.current_time() - began, time.process_time() - cpu
    _print(invocation, _result(read, 0, size, seconds, cpu, Counter()))


def _values(size: int, request_size_max: int) -> list[bytes]:
    """Random values of this size. Raises WrongSettings."""
    if size > request_size_max:
        raise WrongSettings(
            f"a request carries no value of {size} bytes: the producer's max.request.size is {request_size_max}"
        )
    rng = real_env(lambda kind, /, **fields: None).rng
    count = max(1, min(_VALUES, _VALUES_BYTES // max(1, size)))
    return [rng.randbytes(size) for _ in range(count)]


async def _measure_writes(
    producer: Producer, topic: str, count: int, values: Sequence[bytes], rate: float | None
) -> BenchResult:
    latencies: Counter[int] = Counter()

    def settle(handed_over: float, metadata: RecordMetadata | None, error: Exception | None) -> None:
        if metadata is not None:
            latencies[round((trio.current_time() - handed_over) * 1000 * _STEPS_PER_MS)] += 1

    step = _STEP if rate is None else max(1, min(_STEP, int(rate / _STEPS_PER_SECOND)))
    began, cpu = trio.current_time(), time.process_time()
    with Progress("Writing", count, "records") as progress:
        for number in range(count):
            if not number % step:
                progress.show(number)
                await _keep_rate(began, number, rate)
            while True:
                try:
                    on_delivery = partial(settle, trio.current_time())
                    producer.send_soon(topic, values[number % len(values)], on_delivery=on_delivery)
                    break
                except BufferFull:
                    await producer.wait_for_room()
        await producer.flush()
    seconds, cpu = trio.current_time() - began, time.process_time() - cpu
    written = latencies.total()
    return _result(written, count - written, written * len(values[0]), seconds, cpu, latencies)


async def _keep_rate(began: float, number: int, rate: float | None) -> None:
    """Wait until this record is due at the requested rate. Also lets the producer send."""
    ahead_s = 0.0 if rate is None else number / rate - (trio.current_time() - began)
    await trio.sleep(max(0.0, ahead_s))


def _result(records: int, failed: int, size: int, seconds: float, cpu: float, latencies: Counter[int]) -> BenchResult:
    return BenchResult(
        records,
        failed,
        size,
        round(seconds, 3),
        round(records / seconds, 1),
        round(size / seconds / 1e6, 3),
        round(cpu, 3),
        _quantiles(latencies),
    )


def _quantiles(latencies: Counter[int]) -> dict[str, float]:
    """The quantiles in ms of latencies that are counted in steps; none of no latencies."""
    steps = sorted(latencies)
    counts = list(accumulate(latencies[step] for step in steps))
    if not counts:
        return {}
    ranks = {name: min(counts[-1] - 1, int(counts[-1] * share)) for name, share in _QUANTILES.items()}
    return {name: steps[bisect_right(counts, rank)] / _STEPS_PER_MS for name, rank in ranks.items()}


def _print(invocation: Invocation, result: BenchResult) -> None:
    latency = ", ".join(f"{name} {value:g}" for name, value in result.latency_ms.items())
    lines = [
        f"{format_count(result.records, 'record')}, {result.bytes} bytes of values in {result.seconds:g} s",
        f"{result.records_per_second:,.0f} records/s, {result.megabytes_per_second:,.2f} MB/s, "
        f"{result.cpu_seconds:g} s of this process's CPU",
        *([f"latency in ms: {latency}"] if latency else []),
        *([f"{format_count(result.failed, 'record')} failed"] if result.failed else []),
    ]
    invocation.printer.one(result, lines)
    if result.failed:
        invocation.exit_code = Exit.FAILED
