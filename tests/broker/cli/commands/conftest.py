"""A node for commands that need a cluster, and a user without configuration files."""

from collections.abc import Iterator

import pytest

from broker.cli.grammar import clients
from tests.support.cluster_process import ClusterProcess, new_cluster
from tests.support.node_process import NodeProcess


@pytest.fixture(scope="session", autouse=True)
def _no_contexts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KRAFT_CONFIG", str(tmp_path_factory.mktemp("user") / "config.toml"))
        patch.delenv("KRAFT_CONTEXT", raising=False)
        patch.delenv("KRAFT_BOOTSTRAP_SERVERS", raising=False)
        yield


@pytest.fixture(scope="session")
def _node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    overrides = {"offsets.topic.replication.factor": "1", "offsets.topic.num.partitions": "3"}
    node = NodeProcess(tmp_path_factory.mktemp("commands") / "node", overrides)
    try:
        node.start()
        yield node
    finally:
        node.discard()


@pytest.fixture
def node(_node: NodeProcess, monkeypatch: pytest.MonkeyPatch) -> NodeProcess:
    """One node for all tests, the default server of commands. Each test uses its own names."""
    monkeypatch.setenv("KRAFT_BOOTSTRAP_SERVERS", _node.bootstrap)
    return _node


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands try to reach a cluster for half a second, instead of five."""
    monkeypatch.setattr(clients, "_REACH_MS", 500)


@pytest.fixture(scope="session")
def _cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    with new_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.start()
        yield cluster


@pytest.fixture
def three_nodes(_cluster: ClusterProcess, monkeypatch: pytest.MonkeyPatch) -> ClusterProcess:
    """Three nodes for all tests, the default servers of commands. Each test uses its own names."""
    monkeypatch.setenv("KRAFT_BOOTSTRAP_SERVERS", _cluster.bootstrap)
    return _cluster
