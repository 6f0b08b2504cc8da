"""kafka-get-offsets, kafka-delete-records, kafka-configs, kafka-log-dirs, kafka-leader-election and others."""

import json
import re
from pathlib import Path

import pytest

from broker.cli.kafka_tools.tools import main, run_tool
from broker.client import Producer
from tests.support.kafka_tools import Tools, tools_of_a_node

Capture = pytest.CaptureFixture[str]


async def fill(tools: Tools, topic: str, partitions: int, count: int) -> None:
    """Creates a topic with `count` records in each partition, whose timestamps are 1000, 1001, ..."""
    await tools.run("kafka-topics", "--create", "--topic", topic, "--partitions", str(partitions))
    async with Producer(tools.bootstrap) as producer:
        for number in range(count):
            for partition in range(partitions):
                await producer.send(topic, b"value", partition=partition, timestamp_ms=1000 + number)


async def test_get_offsets_prints_the_offsets_of_the_partitions_that_are_chosen(
    tmp_path: Path, capsys: Capture
) -> None:
    async with tools_of_a_node(tmp_path, capsys) as tools:
        await fill(tools, "orders", 3, 2)
        await fill(tools, "payments", 1, 1)
        get = "kafka-get-offsets"
        assert await tools.lines(get) == ["orders:0:2", "orders:1:2", "orders:2:2", "payments:0:1"]
        assert await tools.lines(get, "--topic", "orders", "--partitions", "0,2") == ["orders:0:2", "orders:2:2"]
        chosen = "orders:1-,payments,orders:-1,nothing:7"
        assert await tools.lines(get, "--topic-partitions", chosen, "--time", "-2") == [
            "orders:0:0",
            "orders:1:0",
            "orders:2:0",
            "payments:0:0",
        ]
        assert await tools.lines(get, "--topic-partitions", "pay.*:0", "--time", "1000") == ["payments:0:0"]
        assert await tools.lines(get, "--topic", "payments", "--time", "2000") == []
        _, errors = await tools.run(get, "--topic", "missing", expected=1)
        assert errors == "Error occurred: Could not match any topic-partitions with the specified filters\n"
        _, errors = await tools.run(get, "--time", "noon", expected=1)
        assert errors.startswith("Error occurred: Malformed time argument noon. Please use -1 or latest / -2 or ear")


async def test_arguments_that_are_out_of_range_are_refused_in_a_line(tmp_path: Path, capsys: Capture) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"partitions": [{"topic": "orders", "partition": -1, "offset": 3}], "version": 1}))
    async with tools_of_a_node(tmp_path, capsys) as tools:
        server = ("--bootstrap-server", tools.bootstrap)
        transactions = ("kafka-transactions", *server)
        for tool, *arguments in (
            ("kafka-cluster", "unregister", *server, "--id", "-1"),
            ("kafka-delete-records", *server, "--offset-json-file", str(plan)),
            (*transactions, "abort", "--topic", "orders", "--partition=-1", "--start-offset", "0"),
            (*transactions, "describe-producers", "--topic", "orders", "--partition=-1"),
            (*transactions, "describe", "--transactional-id", "x" * 40_000),
            (*transactions, "find-hanging", "--broker-id=-1"),
            ("kafka-topics", *server, "--create", "--topic", "orders", "--replica-assignment=-1"),
            ("kafka-console-consumer", *server, "--topic", "orders", "--group", "x" * 40_000),
        ):
            assert await run_tool(tool, arguments) == 1, arguments
            output, errors = capsys.readouterr()
            assert "must be" in output + errors or "has 40000 bytes" in output + errors


async def test_delete_records_prints_the_low_watermarks(tmp_path: Path, capsys: Capture) -> None:
    async with tools_of_a_node(tmp_path, capsys) as tools:
        await fill(tools, "orders", 2, 5)
        plan = tmp_path / "plan.json"
        entries = [{"topic": "orders", "partition": 0, "offset": 3}, {"topic": "orders", "partition": 1, "offset": 9}]
        plan.write_text(json.dumps({"partitions": entries, "version": 1}))
        assert await tools.lines("kafka-delete-records", "--offset-json-file", str(plan)) == [
            "Executing records delete operation",
            "Records delete operation completed:",
            "partition: orders-0\tlow_watermark: 3",
            "partition: orders-1\terror: org.apache.kafka.common.errors.OffsetOutOfRangeException: "
            "The requested offset is not within the range of offsets maintained by the server.",
        ]
        assert await tools.lines("kafka-get-offsets", "--time", "earliest") == ["orders:0:3", "orders:1:0"]
        plan.write_text(json.dumps({"partitions": [entries[0], entries[0]]}))
        _, errors = await tools.run("kafka-delete-records", "--offset-json-file", str(plan), expected=1)
        assert errors == "Offset json file contains duplicate topic partitions: orders-0\n"


async def test_quotas_are_altered_and_described(tmp_path: Path, capsys: Capture) -> None:
    async with tools_of_a_node(tmp_path, capsys) as tools:
        alter, describe = ("kafka-configs", "--alter"), ("kafka-configs", "--describe")
        user = ("--user", "ada", "--client-defaults")
        assert await tools.lines(*alter, *user, "--add-config", "producer_byte_rate=1000") == [
            "Completed updating config for user ada."
        ]
        expected = "Quota configs for user-principal 'ada', the default client-id are producer_byte_rate=1000.0"
        assert await tools.lines(*describe, *user) == [expected]
        await tools.run(*alter, *user, "--delete-config", "producer_byte_rate")
        assert await tools.lines(*describe, *user) == []
        _, errors = await tools.run(*alter, *user, "--delete-config", "producer_byte_rate", expected=1)
        assert "Invalid config(s): producer_byte_rate" in errors
        _, errors = await tools.run(*alter, "--client", "app", "--add-config", "retention.ms=1", expected=1)
        assert "Only quota configs can be added for 'clients'" in errors
        _, errors = await tools.run(*alter, "--ip-defaults", "--add-config", "connection_creation_rate=x", expected=1)
        assert "Cannot parse quota configuration value for connection_creation_rate: x" in errors


async def test_configs_of_topics_and_brokers_are_altered_and_described(tmp_path: Path, capsys: Capture) -> None:
    async with tools_of_a_node(tmp_path, capsys) as tools:
        await tools.run("kafka-topics", "--create", "--topic", "orders")
        topic = ["--entity-type", "topics", "--entity-name", "orders"]
        added = ["--add-config", "retention.ms=1000,cleanup.policy=[compact,delete]"]
        assert await tools.lines("kafka-configs", "--alter", *topic, *added) == [
            "Completed updating config for topic orders."
        ]
        assert await tools.lines("kafka-configs", "--describe", *topic) == [
            "Dynamic configs for topic orders are:",
            "  cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,"
            "delete, DEFAULT_CONFIG:log.cleanup.policy=delete}",
            "  retention.ms=1000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=1000}",
        ]
        await tools.run(
            "kafka-configs", "--alter", "--topic", "orders", "--delete-config", "retention.ms,cleanup.policy"
        )
        assert len(await tools.lines("kafka-configs", "--describe", "--topic", "orders")) == 1
        assert len(await tools.lines("kafka-configs", "--describe", "--topic", "orders", "--all")) > 20
        defaults = ["--entity-type", "brokers", "--entity-default"]
        assert await tools.lines("kafka-configs", "--alter", *defaults, "--add-config", "log.cleaner.threads=2") == [
            "Completed updating default config for brokers in the cluster."
        ]
        lines = await tools.lines("kafka-configs", "--describe", "--broker-defaults")
        assert lines[0] == "Default configs for brokers in the cluster are:"
        assert any(
            line.startswith("  log.cleaner.threads=2 sensitive=false synonyms={DYNAMIC_DEFAULT") for line in lines
        )
        assert await tools.lines("kafka-configs", "--describe", "--topic", "missing") == [
            "The topic 'missing' doesn't exist and doesn't have dynamic config."
        ]
        _, errors = await tools.run("kafka-configs", "--alter", *topic, "--add-config", "no.such=1", expected=1)
        assert "InvalidConfigurationException: Unknown topic config name: no.such" in errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--describe"], "At least one entity type must be specified"),
        (["--describe", "--entity-type", "topic"], "Invalid entity type topic, the entity type must be one of topics,"),
        (["--alter", "--entity-type", "topics"], "An entity name must be specified with --alter of topics"),
        (["--alter", "--topic", "t"], "At least one of --add-config, --add-config-file, or --delete-config must be"),
        (["--describe", "--broker", "one"], "The entity name for brokers must be a valid integer broker id, but it is"),
        (["--describe", "--topic", "t", "--entity-type", "topics"], "Duplicate entity type(s) specified: topics"),
        (["--alter", "--topic", "t", "--add-config", "a"], "requirement failed: Invalid entity config"),
    ],
)
async def test_wrong_entities_and_configs_are_refused(
    tmp_path: Path, capsys: Capture, arguments: list[str], message: str
) -> None:
    async with tools_of_a_node(tmp_path, capsys) as tools:
        _, errors = await tools.run("kafka-configs", *arguments, expected=1)
        assert errors.startswith(message)


async def test_log_dirs_are_described_as_json(tmp_path: Path, capsys: Capture) -> None:
    async with tools_of_a_node(tmp_path, capsys) as tools:
        await fill(tools, "orders", 1, 1)
        first, second, document = await tools.lines("kafka-log-dirs", "--describe", "--topic-list", "orders")
        assert first == "Querying brokers for log directories information"
        assert second == "Received log directory information from brokers 1"
        (broker,) = json.loads(document)["brokers"]
        ((replica,), directory) = broker["logDirs"][0]["partitions"], broker["logDirs"][0]
        assert (directory["error"], replica["partition"], replica["offsetLag"]) == (None, "orders-0", 0)
        _, errors = await tools.run("kafka-log-dirs", "--describe", "--broker-list", "1,7", expected=1)
        assert errors == ("ERROR: The given brokers do not exist from --broker-list: 7. Current existent brokers: 1\n")


async def test_leader_election_says_where_no_election_was_needed(tmp_path: Path, capsys: Capture) -> None:
    async with tools_of_a_node(tmp_path, capsys) as tools:
        await fill(tools, "orders", 1, 1)
        elect = ["kafka-leader-election", "--election-type", "preferred"]
        assert await tools.lines(*elect, "--topic", "orders", "--partition", "0") == [
            "Valid replica already elected for partitions orders-0"
        ]
        output, errors = await tools.run(*elect, "--topic", "orders", "--partition", "5", expected=1)
        assert output.startswith(
            "Error completing leader election (PREFERRED) for partition: orders-5: "
            "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: "
        )
        assert errors == "1 replica(s) could not be elected\n"
        _, errors = await tools.run(*elect, "--topic", "orders", expected=1)
        assert errors == "Missing required option(s): partition\n"


async def test_broker_api_versions_has_a_line_for_each_api(tmp_path: Path, capsys: Capture) -> None:
    async with tools_of_a_node(tmp_path, capsys) as tools:
        first, *apis, last = await tools.lines("kafka-broker-api-versions")
        assert re.fullmatch(r"127\.0\.0\.1:\d+ \(id: 1 rack: null isFenced: false\) -> \(", first)
        assert last == ")"
        assert re.fullmatch(r"\tProduce\(0\): 0 to 13 \[usable: 13\],", apis[0])
        assert "\tShareFetch(78): 1 to 2 [usable: 2]," in apis
        assert "\tStreamsGroupDescribe(89): UNSUPPORTED," in apis


def test_storage_formats_directories_and_prints_their_properties(tmp_path: Path, capsys: Capture) -> None:
    properties = tmp_path / "server.properties"
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "localhost:9093",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(tmp_path / "data"),
    }
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    assert main(["kafka-storage.sh", "random-uuid"]) == 0
    cluster_id = capsys.readouterr().out.strip()
    (tmp_path / "data").mkdir()
    assert main(["kafka-storage", "info", "-c", str(properties)]) == 1
    assert capsys.readouterr().out == (
        f"Found log directory:\n  {tmp_path}/data\n\nFound problem:\n  {tmp_path}/data is not formatted.\n\n"
    )
    assert main(["kafka-storage", "format", "-t", cluster_id, "-c", str(properties), "--standalone"]) == 0
    capsys.readouterr()
    assert main(["kafka-storage", "info", "--config", str(properties)]) == 0
    assert re.fullmatch(
        rf"Found log directory:\n  {tmp_path}/data\n\n"
        rf"Found metadata: {{cluster.id={cluster_id}, directory.id=[\w-]{{22}}, node.id=1, version=1}}\n\n",
        capsys.readouterr().out,
    )
    assert main(["kafka-stores"]) == 2
