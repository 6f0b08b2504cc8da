"""The pytest plugin: the fixtures `kafka`, `kafka_cluster` and `kafka_history`, the marker `kafka`, and a timeline of
each failed test.

A session that uses no fixture of it imports this module alone. All processes of pytest-xdist share one test
server: the first that needs it starts it, and it ends with the last.
"""

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from jepsen.testing.cluster import Cluster
    from jepsen.testing.fixture_clusters import FixtureClusters, Kafka
    from jepsen.testing.histories.fixture import KafkaHistory
    from jepsen.testing.server_lease import ServerLease

_MARKER: Final = "kafka"
_SHARED_NODE: Final = "kafka"
_SERVER: Final = "_kafka_server"
_CHAOS_BEGAN: Final = "chaos_began"
_PER: Final = ("test", "module", "session")
_OPTIONS: Final = ("nodes", "security", "config", "features", "seed", "per")
_USED: "Final[pytest.StashKey[dict[str, tuple[Cluster, float]]]]" = pytest.StashKey()
_HISTORY: "Final[pytest.StashKey[KafkaHistory]]" = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kafka", "Kafka clusters for tests")
    group.addoption("--kafka-keep", metavar="DIR", help="keep the data and the logs of all nodes in DIR")
    group.addoption(
        "--kafka-log",
        choices=["debug", "info", "warning", "error"],
        default="info",
        help="the lowest level that nodes log; default: info",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "kafka(nodes=3, security='plaintext', config={}, features={}, seed=None, per='test'): the cluster of "
        "`kafka_cluster`; `per` is test, module or session",
    )


def pytest_collection_finish(session: pytest.Session) -> None:
    """Start the server while tests run that do not need it, if others do."""
    config = session.config
    if not config.option.collectonly and any(_SERVER in getattr(item, "fixturenames", ()) for item in session.items):
        from jepsen.testing.server_lease import begin_shared

        begin_shared(_directory(config), config.getoption("--kafka-keep"))


@pytest.fixture(scope="session")
def _kafka_server(pytestconfig: pytest.Config) -> "Iterator[ServerLease]":
    from jepsen.testing.server_lease import ServerLease

    lease = ServerLease.shared(_directory(pytestconfig), pytestconfig.getoption("--kafka-keep"))
    yield lease
    lease.release()


def _directory(config: pytest.Config) -> "Path":
    """The temporary directory that all processes of the run have."""
    factory: pytest.TempPathFactory = config._tmp_path_factory  # type: ignore[attr-defined]
    directory = factory.getbasetemp()
    return directory.parent if hasattr(config, "workerinput") else directory


@pytest.fixture(scope="session")
def _kafka_node(_kafka_server: "ServerLease", pytestconfig: pytest.Config) -> "Cluster":
    from jepsen.testing.cluster import Cluster

    log_level = pytestconfig.getoption("--kafka-log")
    return Cluster(1, server=_kafka_server, shared_as=_SHARED_NODE, log_level=log_level)


@pytest.fixture(scope="session")
def _kafka_clusters_of_session() -> "Iterator[FixtureClusters]":
    from jepsen.testing.fixture_clusters import FixtureClusters

    clusters = FixtureClusters()
    yield clusters
    clusters.close()


@pytest.fixture(scope="module")
def _kafka_clusters_of_module() -> "Iterator[FixtureClusters]":
    from jepsen.testing.fixture_clusters import FixtureClusters

    clusters = FixtureClusters()
    yield clusters
    clusters.close()


@pytest.fixture
def _kafka_clusters_of_test() -> "Iterator[FixtureClusters]":
    from jepsen.testing.fixture_clusters import FixtureClusters

    clusters = FixtureClusters()
    yield clusters
    clusters.close()


@pytest.fixture
def kafka(request: pytest.FixtureRequest, _kafka_node: "Cluster") -> "Iterator[Kafka]":
    """A Kafka node that all tests share. Topics and groups of a test are its own, and deleted after it."""
    from jepsen.testing.fixture_clusters import Kafka

    # A mark of a class or a module may be for other tests of it.
    of_test = [mark for mark in request.node.own_markers if mark.name == _MARKER]
    if of_test and "kafka_cluster" not in request.fixturenames:
        raise pytest.UsageError(
            "@pytest.mark.kafka is for the fixture `kafka_cluster`, a cluster for this test; the fixture `kafka` is "
            "one node, which all tests share"
        )
    _note_use(request, _kafka_node)
    kafka = Kafka(_kafka_node)
    yield kafka
    kafka.close()


@pytest.fixture
def kafka_cluster(
    request: pytest.FixtureRequest, _kafka_server: "ServerLease", pytestconfig: pytest.Config
) -> "Iterator[Cluster]":
    """A Kafka cluster for this test, whose nodes can be killed. `@pytest.mark.kafka` has its options."""
    marker = request.node.get_closest_marker(_MARKER)
    options = {} if marker is None else dict(marker.kwargs)
    if unknown := sorted(options.keys() - _OPTIONS):
        raise pytest.UsageError(f"@pytest.mark.kafka takes {', '.join(_OPTIONS)}, not {', '.join(unknown)}")
    per = options.pop("per", "test")
    if per not in _PER or (marker is not None and marker.args):
        raise pytest.UsageError(f"@pytest.mark.kafka takes keywords; per is one of {', '.join(_PER)}, not {per!r}")
    clusters: FixtureClusters = request.getfixturevalue(f"_kafka_clusters_of_{per}")
    cluster = clusters.get(_kafka_server, pytestconfig.getoption("--kafka-log"), options)
    _note_use(request, cluster)
    yield cluster
    if per != "test":  # other tests use it
        cluster.end_faults()
        cluster.resume()
        cluster.start()


@pytest.fixture
def kafka_history(request: pytest.FixtureRequest, tmp_path: "Path") -> "Iterator[KafkaHistory]":
    """A history of what the test's clients do and are told, on the cluster that the test uses."""
    from jepsen.testing.histories.fixture import KafkaHistory

    used = "kafka_cluster" if "kafka_cluster" in request.fixturenames else "kafka"
    history = KafkaHistory(tmp_path / "kafka-history", request.getfixturevalue(used))
    request.node.stash[_HISTORY] = history
    yield history
    history.close()


def _note_use(request: pytest.FixtureRequest, cluster: "Cluster") -> None:
    """Remember for a report which cluster a test uses, and since when."""
    used = request.node.stash.setdefault(_USED, {})
    used[cluster.name] = (cluster, cluster.age())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    used = item.stash.get(_USED, {})
    if report.failed and used:
        from jepsen.testing.control_client import ControlError
        from jepsen.testing.timeline import timeline

        for cluster, since_s in used.values():
            title = f"Kafka cluster {cluster.name}: timeline, seed {cluster.seed}"
            try:
                events = cluster.events()
            except (ControlError, OSError) as error:  # the cluster has ended before a fixture that failed
                report.sections.append((title, str(error)))
            else:
                report.sections.append((title, "\n".join(timeline(events, since_s))))
                if replays := _replays(events, since_s):
                    report.sections.append((f"Kafka cluster {cluster.name}: chaos", replays))
    history = item.stash.get(_HISTORY, None)
    if report.failed and history is not None and (lines := history.timeline()):
        report.sections.append(("Kafka history: the findings with their operations", "\n".join(lines)))
    return report


def _replays(events: list[dict[str, Any]], since_s: float) -> str:
    """The lines that repeat the chaos of a test."""
    began = [each for each in events if each["event"] == _CHAOS_BEGAN and each["seconds"] >= since_s]
    return "\n".join(str(each["fields"]["replay"]) for each in began)
