"""Apache Kafka's own command-line tools with a node: features, ACLs, transactions, quotas and credentials."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks import apache_kafka
from tests.support.node_process import NodeProcess, command

pytestmark = pytest.mark.clients

Tool = Callable[..., tuple[int, str]]

FEATURES = "org.apache.kafka.tools.FeatureCommand"
CLUSTER_ID = "4L6g3nShTSeMCtKrX86swA"


def tool_for(bootstrap: str) -> Tool:
    def run(main: str, *arguments: str) -> tuple[int, str]:
        line = apache_kafka.java(main, "--bootstrap-server", bootstrap, *arguments)
        done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout + done.stderr

    return run


@pytest.fixture
def tool(kafka_jars: None, bootstrap: str) -> Tool:
    """Run a main class of Kafka with the shared node. Returns the exit code and the output."""
    return tool_for(bootstrap)


@pytest.fixture
def tool_of_kafka_4_0(kafka_jars: None, new_node: Callable[..., NodeProcess], tmp_path: Path) -> Iterator[Tool]:
    """The same with a node whose cluster was formatted at the feature levels of Kafka 4.0."""
    node = new_node(process_roles="broker,controller", node_id=1)
    properties = tmp_path / "server.properties"
    controller = f"127.0.0.1:{node.controller_port}"
    node.overrides |= {
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": controller,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    }
    properties.write_text("".join(f"{key}={value}\n" for key, value in node.settings.items()))
    options = ["format", "-c", str(properties), "-t", CLUSTER_ID, "--standalone", "--release-version", "4.0"]
    done = subprocess.run([*command(), *options], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    node.start()
    yield tool_for(node.bootstrap)
    node.stop()


def levels(tool: Tool) -> dict[str, tuple[str, str, str]]:
    """The lowest, highest and finalized level of each feature, as the tool prints them."""
    code, output = tool(FEATURES, "describe")
    assert code == 0, output
    rows = [line.split() for line in output.splitlines() if line.startswith("Feature: ")]
    return {row[1]: (row[3], row[5], row[7]) for row in rows}


def test_features_are_upgraded_to_kafkas_release_and_downgraded(tool_of_kafka_4_0: Tool) -> None:
    """KIP-584, KIP-1022: `kafka-features` from Kafka 4.4's own jars."""
    tool = tool_of_kafka_4_0
    assert {name: each[2] for name, each in levels(tool).items()} == {
        "eligible.leader.replicas.version": "1",
        "group.version": "1",
        "kraft.version": "1",
        "metadata.version": "4.0-IV3",
        "share.version": "0",
        "streams.version": "0",
        "transaction.version": "2",
    }
    code, output = tool(FEATURES, "upgrade", "--release-version", "4.4")
    assert code == 0, output
    assert "metadata.version was upgraded to 33." in output
    assert levels(tool) == {
        "eligible.leader.replicas.version": ("0", "1", "1"),
        "group.version": ("0", "1", "1"),
        "kraft.version": ("0", "1", "1"),
        "metadata.version": ("3.3-IV3", "4.4-IV2", "4.4-IV2"),
        "share.version": ("0", "2", "2"),
        "streams.version": ("0", "1", "1"),
        "transaction.version": ("0", "2", "2"),
    }

    code, output = tool(FEATURES, "downgrade", "--release-version", "4.2")
    assert code != 0
    assert "Refusing to perform the requested downgrade because it might delete metadata information." in output
    code, output = tool(FEATURES, "downgrade", "--feature", "transaction.version=0", "--feature", "share.version=0")
    assert code == 0, output
    assert {name: each[2] for name, each in levels(tool).items() if each[2] == "0"} == {
        "share.version": "0",
        "transaction.version": "0",
    }


def test_acls_are_disabled_without_an_authorizer(tool: Tool) -> None:
    code, output = tool("org.apache.kafka.tools.AclCommand", "--list")
    assert code != 0
    assert "SecurityDisabledException: No Authorizer is configured" in output


def test_transactions_are_listed(tool: Tool) -> None:
    """Other tests have transactions on the shared node, or none before this one."""
    code, output = tool("org.apache.kafka.tools.TransactionsCommand", "list")
    assert code == 0, output
    assert output.split()[:4] == ["TransactionalId", "Coordinator", "ProducerId", "TransactionState"]


def test_users_have_no_credentials(tool: Tool) -> None:
    code, output = tool("org.apache.kafka.tools.ConfigCommand", "--describe", "--entity-type", "users")
    assert (code, output) == (0, "")


@pytest.mark.parametrize(
    ("entity", "quota", "described"),
    [
        (("--user", "ada"), "producer_byte_rate", "user-principal 'ada'"),
        (("--user", "ada", "--client-defaults"), "consumer_byte_rate", "user-principal 'ada', the default client-id"),
        (("--client", "app"), "request_percentage", "client-id 'app'"),
        (("--user-defaults",), "controller_mutation_rate", "the default user-principal"),
        (("--ip", "127.0.0.9"), "connection_creation_rate", "ip '127.0.0.9'"),
    ],
)
def test_quotas_of_each_kind_are_set_described_and_removed(
    tool: Tool, entity: tuple[str, ...], quota: str, described: str
) -> None:
    configs = "org.apache.kafka.tools.ConfigCommand"
    code, output = tool(configs, "--alter", *entity, "--add-config", f"{quota}=5000000")
    assert code == 0, output
    code, output = tool(configs, "--describe", *entity)
    assert (code, output) == (0, f"Quota configs for {described} are {quota}=5000000.0\n")
    code, output = tool(configs, "--alter", *entity, "--delete-config", quota)
    assert code == 0, output
    assert tool(configs, "--describe", *entity) == (0, "")


def test_the_java_client_writes_a_transaction(tool: Tool, topic: str) -> None:
    options = ["--topic", topic, "--num-records", "1", "--record-size", "1", "--throughput", "-1"]
    code, output = tool("org.apache.kafka.tools.ProducerPerformance", *options, "--transactional-id", "id")
    assert code == 0, output
    assert "1 records sent" in output
