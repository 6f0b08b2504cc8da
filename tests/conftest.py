"""Options and reports of the whole test suite."""

import gc
import os
import shutil
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from trio.testing import MockClock

from jepsen.processes import ports
from tests.support.compiled_tests import import_share
from tests.support.order_of_tests import order_for_processes
from tests.support.other_interpreter import divide_for_other_interpreter
from tests.support.source_code import ROOT

pytest_plugins = ["tests.support.examples", "tests.support.open_clients"]

FIGURE = "figure"

# The processes of a run by pytest-xdist, and the number of this one.
WORKER_COUNT = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
WORKER_NUMBER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))

# A node starts in about half the processor time if its modules are compiled, and the tests start hundreds of processes.
# If the environment disables compiled modules beside the sources, this process and those share a directory of them, as
# in the Makefile.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
    prefix = os.environ.setdefault("PYTHONPYCACHEPREFIX", str(ROOT / ".venv" / "compiled"))
    sys.pycache_prefix, sys.dont_write_bytecode = prefix, False

# Nodes sync thousands of files. That takes 6 ms each on a disk, and nothing in memory, where the files of a run need
# less than 1 GB. Power cuts are tested on simulated disks. TMPDIR or `--basetemp` chooses another place.
MEMORY = Path("/dev/shm")
_MEMORY_BYTES_MIN = 6 << 30
if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > _MEMORY_BYTES_MIN:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# Objects until a collection of the youngest, and collections until one of older objects. Memory that is reused stays
# in the processor's caches: with 50,000 objects, the tests take more time than with 10,000.
_COLLECTION_THRESHOLDS = (10_000, 10, 20)

# Background processes of a shell, and their children, ignore SIGINT. Tests send SIGINT to processes.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kraft")
    group.addoption(
        "--full", action="store_true", help="run the shows at full size: a million records, twenty kills, five minutes"
    )
    group.addoption(
        "--apache-kafka", action="store_true", help="run the client library's tests against Apache Kafka too"
    )
    group.addoption("--spark-tables", action="store_true", help="run the tests that need Spark's packages for tables")
    group.addoption("--java-clients", action="store_true", help="run the tests that need Apache Kafka's Java client")
    group.addoption(
        "--control-clients", action="store_true", help="run the clients of test clusters in other languages"
    )
    group.addoption("--go-clients", action="store_true", help="run the tests that need Go and franz-go")
    group.addoption(
        "--prometheus", action="store_true", help="run Prometheus itself, from Debian if it is not installed"
    )
    group.addoption("--prometheus-plots", help="the directory for a plot of what Prometheus has found")
    group.addoption("--rewrite-traces", action="store_true", help="write the golden traces anew, to be reviewed")
    group.addoption("--kills", type=int, help="how often each part is killed, in the tests that kill")
    group.addoption("--minutes", type=float, help="how long streaming runs at a steady rate")
    group.addoption(
        "--other-interpreter",
        action="store_true",
        help="leave out what does not depend on the version of Python: parameters after a test's first ones, and Spark",
    )
    group.addoption("--records", type=int, help="records per client and compression in the round trips")


@pytest.fixture(scope="session")
def full(pytestconfig: pytest.Config) -> bool:
    """True if the run uses full-size workloads, instead of the smaller ones of everyday runs."""
    return bool(pytestconfig.getoption("--full"))


@pytest.fixture(scope="session", autouse=True)
def _ports_of_this_process() -> Iterator[None]:
    """Divides the ports among the processes that run tests.

    A node that is down does not hold its ports, and finds them free when it starts again.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ports, "PORTS", ports.PORTS[WORKER_NUMBER::WORKER_COUNT])
        yield


@pytest.fixture(scope="module")
def few_objects() -> None:
    """Exclude all present objects from garbage collections: for modules whose tests collect garbage themselves.

    In a process that has run thousands of tests, each of these collections takes a second of processor time.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Report a measured figure, which is printed with the test's name at the end of the run."""

    def report(text: str) -> None:
        request.node.user_properties.append((FIGURE, f"{request.node.name}: {text}"))

    return report


@pytest.fixture
def jumping_clock() -> MockClock:
    """Virtual time for tests over real sockets: waiting takes no real time, and times are exact.

    It jumps after a short real pause without events, in which the kernel delivers the bytes that were sent.
    """
    return MockClock(autojump_threshold=0.005)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--other-interpreter"):
        kept, others = divide_for_other_interpreter(items)
        config.hook.pytest_deselected(items=others)
        items[:] = kept
    if WORKER_COUNT > 1:
        items[:] = order_for_processes(items, WORKER_COUNT)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect the tests without garbage collection, which takes a quarter of the time and frees nothing. The tests and
    their modules stay excluded from it: each full collection would examine a million objects, for up to half a second.

    Afterwards it is rarer than by default, at which it takes a tenth of the time of the broker's tests.
    """
    gc.disable()
    try:
        if WORKER_COUNT > 1:
            import_share(session.config.args, WORKER_NUMBER, WORKER_COUNT)
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*_COLLECTION_THRESHOLDS)
        gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [each for of_outcome in terminalreporter.stats.values() for each in of_outcome]
    calls = [each for each in reports if isinstance(each, pytest.TestReport) and each.when == "call"]
    if lines := [text for call in calls for name, text in call.user_properties if name == FIGURE]:
        terminalreporter.section("figures")
        for line in lines:
            terminalreporter.write_line(str(line))
