"""A pytest plugin that says which examples the tests draw: the same ones in every run, or new ones to explore.

Hypothesis draws from the digest of a test's own source, and keeps no database. A test with `@pytest.mark.seeds(count)`
gets the seeds 0, 1, ... as its argument `seed`. So a run passes or fails alike on every machine.

`--draw SEED` draws others, from SEED: `make explore` runs the tests that draw with one new SEED after the other.
`--example-digests FILE` writes a digest per test of all examples that Hypothesis drew, to compare two runs.
"""

import hashlib
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import data, providers

SAME_EXAMPLES, NEW_EXAMPLES = "same-examples", "new-examples"
DIGEST = "examples"


def _load_profile() -> None:
    # The duration of an example depends on the machine more than on the product.
    timeless = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None)
    settings.register_profile(SAME_EXAMPLES, timeless, derandomize=True)
    settings.register_profile(NEW_EXAMPLES, timeless, derandomize=False, print_blob=True)
    settings.load_profile(SAME_EXAMPLES)
    # Hypothesis also draws constants of the project's modules that happen to be loaded. That depends on the tests that
    # ran before in the same process. One of its thousands would hardly ever be drawn where it matters.
    no_constants = providers._local_constants
    providers._get_local_constants = lambda: no_constants


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("examples")
    group.addoption("--draw", type=int, metavar="SEED", help="run the tests that draw examples, on those of SEED")
    group.addoption("--draw-until", type=float, metavar="TIME", help="begin no test after that time, in Unix seconds")
    group.addoption("--failed-tests", type=Path, metavar="FILE", help="write the names of the failed tests")
    group.addoption("--example-digests", type=Path, metavar="FILE", help="write a digest of each test's examples")


@pytest.hookimpl(tryfirst=True)  # the options of Hypothesis are read after that
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "seeds(count, first=0): runs with each seed; with others when tests explore")
    seed: int | None = config.option.draw
    if seed is not None:
        config.option.hypothesis_profile, config.option.hypothesis_seed = NEW_EXAMPLES, str(seed)
    if config.option.draw_until is not None:
        config.pluginmanager.register(Deadline(config.option.draw_until), "draw-until")
    if config.option.example_digests:
        config.pluginmanager.register(ExampleDigests(), "example-digests")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker("seeds")
    if marker is not None:
        count, first = _seed_range(*marker.args, **marker.kwargs)
        drawn: int | None = metafunc.config.option.draw
        begin = first if drawn is None else drawn
        metafunc.parametrize("seed", range(begin, begin + count))


def _seed_range(count: int, first: int = 0) -> tuple[int, int]:
    return count, first


@pytest.hookimpl(trylast=True)  # Hypothesis has marked its tests
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests that always do the same, if new examples are drawn."""
    if config.option.draw is not None:
        kept, others = [], []
        for item in items:
            draws = item.get_closest_marker("hypothesis") or item.get_closest_marker("seeds")
            (kept if draws else others).append(item)
        config.hook.pytest_deselected(items=others)
        items[:] = kept


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    path: Path | None = terminalreporter.config.option.failed_tests
    if path is not None:
        failed = [each.nodeid for outcome in ("failed", "error") for each in terminalreporter.stats.get(outcome, [])]
        path.write_text("".join(f"{test}\n" for test in dict.fromkeys(failed)))


class Deadline:
    """Skips the tests that have not begun when the time is over."""

    def __init__(self, time_s: float) -> None:
        self._time_s = time_s

    def pytest_runtest_setup(self) -> None:
        if time.time() > self._time_s:
            pytest.skip("the time to explore is over")


class ExampleDigests:
    """Digests the examples of each test, apart from those of other tests: order and processes do not count."""

    def __init__(self) -> None:
        self._digest: Any = None
        self._count = 0
        freeze = data.ConjectureData.freeze

        def digest_and_freeze(example: data.ConjectureData) -> None:
            if not example.frozen:
                self._add(example)
            freeze(example)

        data.ConjectureData.freeze = digest_and_freeze  # type: ignore[method-assign]

    def _add(self, example: data.ConjectureData) -> None:
        if self._digest is not None:
            self._count += 1
            for node in example.nodes:
                self._digest.update(f"{node.type} {node.value!r}\n".encode("utf-8", "surrogatepass"))
            self._digest.update(b"\n")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        self._digest, self._count = hashlib.sha256(), 0
        try:
            yield
        finally:
            if self._count:
                line = f"{self._digest.hexdigest()[:16]} {self._count:6} {item.nodeid}"
                item.user_properties.append((DIGEST, line))
            self._digest = None

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        reports = [each for of_outcome in terminalreporter.stats.values() for each in of_outcome]
        calls = [each for each in reports if isinstance(each, pytest.TestReport) and each.when == "call"]
        lines = sorted(
            (str(text) for call in calls for name, text in call.user_properties if name == DIGEST),
            key=lambda line: line.split(maxsplit=2)[2],
        )
        text = "".join(f"{line}\n" for line in lines)
        path: Path = terminalreporter.config.option.example_digests
        path.write_text(text)
        examples = sum(int(line.split()[1]) for line in lines)
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        terminalreporter.write_line(f"{examples} examples of {len(lines)} tests, digest {digest}, in {path}")


_load_profile()
