"""`kraft start` with `kraft.brokers`: several brokers of one host, each in a process of its own, under a supervisor.

A broker that ends is started again. If one cannot start at all when the command begins, all are stopped, so that the
operator or the service manager notices. SIGTERM, SIGINT and SIGHUP stop the brokers before the first one, which may be
the controller that their leaders are handed over by.
"""

import contextlib
import re
from collections.abc import Callable, Sequence
from functools import partial
from traceback import format_exception
from typing import TYPE_CHECKING, Final, cast

import trio

from broker.cli.errors import error_text
from broker.cli.event_printer import EventPrinter, LogFormat
from broker.cli.forked_process import fork, wait_for
from broker.cli.host_formatting import format_host
from broker.cli.node_config import Host, HostBroker
from broker.cli.printing import print_error, print_line
from broker.cli.signals import call_at_eof
from broker.cli.start_arguments import StartArguments
from broker.cli.supervisor import Supervisor, Task, TaskEnd, describe_end
from broker.config import KafkaConfig
from broker.events import ALL_CATALOGUES
from broker.log_levels import LogLevels
from broker.node.listeners import bind_listener
from kraft.env import Tracer
from kraft.events import Level

if TYPE_CHECKING:
    from broker.cli.host_metrics import HostMetrics

# The delay of a restart doubles from the first to the last with each end that follows a shorter time of service.
FIRST_DELAY_S: Final = 0.25
LAST_DELAY_S: Final = 30.0
STEADY_S: Final = 60.0
_FAILED: Final = 1
# The lines that a node prints on standard output. All others are its log.
_METRICS_PORT: Final = re.compile(r"kraft: listening on HTTP://127\.0\.0\.1:(\d+)")
_ANNOUNCEMENT: Final = re.compile(r"kraft: (listening on|node \d+ of cluster) ")


def run_brokers(host: Host, arguments: StartArguments, main: Callable[[Sequence[str]], int]) -> int:
    """Run the brokers of a host until a signal stops them. `main` runs `kraft start` in the forks.

    Returns the exit code of the command. Raises OSError.
    """
    if wait_for(fork(partial(format_host, [broker.config for broker in host.brokers]))):
        return _FAILED  # the fork has printed the reason
    level, log_format = Level[arguments.log_level.upper()], cast(LogFormat, arguments.log_format)
    levels = LogLevels([catalogue.package for catalogue in ALL_CATALOGUES], level)
    printer = EventPrinter(host.config.node_id, levels, log_format)
    tasks = [_task(broker, arguments, index) for index, broker in enumerate(host.brokers)]
    brokers = _Brokers(tasks, host.config, printer.trace)
    brokers.supervisor.fork(main)
    trio.run(brokers.run, printer, arguments.stop_at_eof, restrict_keyboard_interrupt_to_checkpoints=True)
    return _FAILED if brokers.supervisor.failed else 0


def _task(broker: HostBroker, arguments: StartArguments, index: int) -> Task:
    options = [part for each in broker.overrides for part in ("--override", each)]
    options += ["--log-level", arguments.log_level, "--log-format", arguments.log_format]
    file = [] if arguments.properties is None else [arguments.properties]
    return Task(str(broker.config.node_id), ["start", *file, *options], ["--stop-at-eof"], stops_last=index == 0)


class _Brokers:
    """The brokers of a host by their ids, which name their tasks."""

    def __init__(self, tasks: Sequence[Task], config: KafkaConfig, trace: Tracer) -> None:
        self.supervisor = Supervisor(tasks, self._write, self._report_serving, self._on_end)
        self._ids = [task.name for task in tasks]
        self._trace = trace
        self._failures = dict.fromkeys(self._ids, 0)
        self._have_served = False
        self._config = config
        self._metrics = None if config.endpoints.http is None else self._make_metrics()

    async def run(self, printer: EventPrinter, stop_at_eof: bool) -> None:
        """Run the brokers until all have ended."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(printer.run)
            if stop_at_eof:
                nursery.start_soon(call_at_eof, self.supervisor.stop)
            if self._metrics is not None:
                nursery.start_soon(self._serve_metrics, self._metrics)
            await self.supervisor.run()
            nursery.cancel_scope.cancel()

    def _make_metrics(self) -> "HostMetrics":
        """The metrics of all brokers. Other supervisors do not import the package."""
        from broker.cli.host_metrics import HostMetrics

        return HostMetrics(self._ids, self._scrape_failed)

    async def _serve_metrics(self, metrics: "HostMetrics") -> None:
        listener = self._config.endpoints.http
        assert listener is not None, "the metrics are made for a listener"
        try:
            bound = await bind_listener(listener, self._config.socket_listen_backlog_size)
        except OSError as error:
            say(f"kraft: {error_text(error)}", print_error)
            self.supervisor.failed = True
            self.supervisor.stop()
            return
        say(f"kraft: listening on {bound}", _print_now)
        await metrics.run(bound.sockets)

    def _scrape_failed(self, error: Exception) -> None:
        self._trace("host_scrape_failed", error="".join(format_exception(error)))

    def _write(self, name: str, line: str) -> None:
        """Pass on a line of a broker. One of JSON has the id of the broker already."""
        if self._metrics is not None and (port := _METRICS_PORT.fullmatch(line)):
            self._metrics.set_port(name, int(port[1]))
            return
        shown = line if line.startswith("{") else f"broker {name} | {line}"
        say(shown, print_error if _ANNOUNCEMENT.match(line) is None else _print_now)

    def _report_serving(self) -> None:
        self._have_served = True
        say(f"kraft: all {len(self._ids)} brokers of this host serve: {', '.join(self._ids)}", _print_now)

    def _on_end(self, end: TaskEnd) -> float | None:
        name, how = end.task.name, describe_end(end.code)
        if self._metrics is not None:
            self._metrics.set_port(name, None)
        if end.is_stopping:
            say(f"kraft: broker {name} has ended with {how} while it was to stop", print_error)
            return None
        if not self._have_served:
            why = "before all brokers of this host served: all stop"
            say(f"kraft: broker {name} has ended with {how} {why}", print_error)
            self.supervisor.stop()
            return None
        delay_s = self._delay_s(end)
        self._trace("broker_process_ended", broker=int(name), end=how, delay_s=delay_s)
        return delay_s

    def _delay_s(self, end: TaskEnd) -> float:
        """The seconds until a broker is started again: none after a clean end, as by kafka-server-stop."""
        name = end.task.name
        if end.served_s is not None and end.served_s >= STEADY_S:
            self._failures[name] = 0
        if end.code == 0 and end.served_s is not None:
            return 0.0
        self._failures[name] += 1
        return restart_delay_s(self._failures[name])


def _print_now(text: str) -> None:
    print_line(text, flush=True)


def say(text: str, write: Callable[[str], None]) -> None:
    """Print a line. A reader that is gone, or a full disk, is no reason to end the brokers."""
    with contextlib.suppress(OSError):
        write(text)


def restart_delay_s(failures: int) -> float:
    """The delay of the restart after so many failures in a row, of which the last one is counted."""
    return min(FIRST_DELAY_S * 2.0 ** min(failures - 1, 30), LAST_DELAY_S)
