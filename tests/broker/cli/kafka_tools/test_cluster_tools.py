"""kafka-groups, kafka-cluster, kafka-features, kafka-dump-log and kafka-server-stop.

The expected lines are those that Apache Kafka's own tools print for the same cluster.
"""

from pathlib import Path

import pytest

from broker.cli.kafka_tools import server_stop
from broker.cli.kafka_tools.tools import main, run_tool
from jepsen.processes.server_process import ServerProcess
from tests.support.kafka_tools import Tools, tools_of_a_node
from tests.support.node_process import NodeProcess

Capture = pytest.CaptureFixture[str]


async def run(tools: Tools, capsys: Capture, name: str, *arguments: str, expected: int = 0) -> tuple[list[str], str]:
    """The lines that a tool prints, whose brokers stand after its command, and its errors."""
    assert await run_tool(name, [*arguments, "--bootstrap-server", tools.bootstrap]) == expected
    output, errors = capsys.readouterr()
    return output.splitlines(), errors


async def test_groups_of_all_types_are_listed_and_filtered_kip_1043(tmp_path: Path, capsys: Capture) -> None:
    header = f"{'GROUP':<20} {'TYPE':<20} {'PROTOCOL':<20}"
    billing = f"{'billing':<20} {'Classic':<20} {'':<20} "
    overrides = {"offsets_topic_num_partitions": 1, "offsets_topic_replication_factor": 1}
    async with tools_of_a_node(tmp_path, capsys, **overrides) as tools:
        await tools.run("kafka-topics", "--create", "--topic", "orders")
        reset = ("--reset-offsets", "--group", "billing", "--topic", "orders", "--to-latest", "--execute")
        await tools.run("kafka-consumer-groups", *reset)
        assert await tools.lines("kafka-groups", "--list") == [header, billing]
        for wanted in (["--consumer"], ["--group-type", "CLASSIC"], ["--protocol", ""]):
            assert await tools.lines("kafka-groups", "--list", *wanted) == [header, billing]
        for other in (["--share"], ["--streams"], ["--group-type", "share"], ["--protocol", "connect"]):
            assert await tools.lines("kafka-groups", "--list", *other) == [header]
        _, errors = await tools.run("kafka-groups", expected=1)
        assert errors.startswith("Command must include exactly one action: --list.\n")
        assert (await tools.run("kafka-groups", "--list", "--group-type", "x", expected=1))[1] == (
            "--group-type must be a valid group type.\n"
        )
        _, errors = await tools.run("kafka-groups", "--list", "--share", "--consumer", expected=1)
        assert errors.startswith('Option "[consumer]" can\'t be used with option "[share]"\n')


async def test_the_cluster_tool_prints_id_and_endpoints_and_unregisters(tmp_path: Path, capsys: Capture) -> None:
    async with tools_of_a_node(tmp_path, capsys) as tools:
        (line,), _ = await run(tools, capsys, "kafka-cluster", "cluster-id")
        assert line.startswith("Cluster ID: ")
        config = tmp_path / "empty.properties"
        config.write_text("")
        (warning, _), _ = await run(tools, capsys, "kafka-cluster", "cluster-id", "--config", str(config))
        assert warning == (
            "Option --config has been deprecated and will be removed in a future version. Use --command-config instead."
        )
        port = tools.bootstrap.partition(":")[2]
        assert (await run(tools, capsys, "kafka-cluster", "list-endpoints"))[0] == [
            "ID         HOST      PORT       RACK       STATE      ENDPOINT_TYPE  ",
            f"1          127.0.0.1 {port:<10} null       unfenced   broker         ",
        ]
        _, errors = await run(tools, capsys, "kafka-cluster", "unregister", "--id", "77", expected=1)
        assert errors == (
            "org.apache.kafka.common.errors.BrokerIdNotRegisteredException: Broker ID 77 is not currently registered\n"
        )
        _, errors = await run(tools, capsys, "kafka-cluster", "unregister-controller", "--id", "77", expected=1)
        assert errors == (
            "org.apache.kafka.common.errors.ControllerIdNotRegisteredException: "
            "Controller ID 77 is not currently registered.\n"
        )
        fenced = ("list-endpoints", "--bootstrap-controller", tools.bootstrap, "--include-fenced-brokers")
        assert await run_tool("kafka-cluster", fenced) == 1
        assert "is only supported with --bootstrap-server option" in capsys.readouterr().err


async def test_features_are_described_and_changed_kip_584(tmp_path: Path, capsys: Capture) -> None:
    async with tools_of_a_node(tmp_path, capsys) as tools:
        lines = await tools.lines("kafka-features", "describe")
        assert [
            line.split("Epoch: ")[0] for line in lines if line.startswith(("Feature: metadata", "Feature: share"))
        ] == [
            "Feature: metadata.version                          SupportedMinVersion: 3.3-IV3          "
            "SupportedMaxVersion: 4.4-IV2          FinalizedVersionLevel: 4.4-IV2          ",
            "Feature: share.version                             SupportedMinVersion: 0                "
            "SupportedMaxVersion: 2                FinalizedVersionLevel: 2                ",
        ]
        disable = ("disable", "--feature", "group.version", "--dry-run")
        assert await tools.lines("kafka-features", *disable) == ["group.version can be disabled."]
        output, errors = await tools.run(
            "kafka-features", "upgrade", "--feature", "x=1", "--feature", "share.version=2", expected=1
        )
        assert [line.partition(".  ")[0][:42] for line in output.splitlines()] == [
            "Could not upgrade share.version to 2. The ",
            "Could not upgrade x to 1. The update faile",
        ]
        assert errors == "2 out of 2 operation(s) failed.\n"


@pytest.mark.parametrize(
    ("arguments", "code", "printed"),
    [
        (["version-mapping", "--release-version", "4.0"], 0, "metadata.version=25 (4.0)\nkraft.version=1\n"
         "transaction.version=2\ngroup.version=1\neligible.leader.replicas.version=0\nshare.version=0\n"
         "streams.version=0\n"),
        (["version-mapping"], 0, "metadata.version=33 (4.4-IV2)\nkraft.version=1\ntransaction.version=2\n"
         "group.version=1\neligible.leader.replicas.version=1\nshare.version=2\nstreams.version=1\n"),
        (["feature-dependencies", "--feature", "eligible.leader.replicas.version=1"], 0,
         "eligible.leader.replicas.version=1 requires:\n    metadata.version=23 (4.0-IV1)\n"),
        (["feature-dependencies", "--feature", "metadata.version=33", "--feature", "x=1"], 1,
         "metadata.version=33 (4.4-IV2) has no dependencies.\nUnknown feature: x\n"),
        (["feature-dependencies", "--feature", "group.version=9"], 1,
         "No feature:group.version with feature level 9\n"),
        (["upgrade"], 1, "You must specify at least one feature to upgrade\n"),
        (["upgrade", "--feature", "a"], 1, "Can't parse feature=level string a: equals sign not found.\n"),
        (["upgrade", "--feature", "a=x"], 1, "Can't parse feature=level string a=x: unable to parse x as a short.\n"),
        (["upgrade", "--feature", "a=1", "--feature", "a=2"], 1, "Feature a was specified more than once.\n"),
        (["upgrade", "--release-version", "4.0", "--feature", "a=1"], 1,
         "Can not specify `release-version` with other feature flags.\n"),
        ([], 1, "Command line error: too few arguments. Type --help for help.\n"),
    ],
)  # fmt: skip
async def test_mappings_and_dependencies_of_features_need_no_cluster(
    arguments: list[str], code: int, printed: str, capsys: Capture
) -> None:
    assert await run_tool("kafka-features", ["--bootstrap-server", "127.0.0.1:1", *arguments]) == code
    output, errors = capsys.readouterr()
    assert output + errors == printed


def test_kafka_dump_log_is_the_command_dump_log(capsys: Capture) -> None:
    assert main(["kafka-dump-log.sh", "--files", "/nowhere/0.log"]) == 1
    assert capsys.readouterr().out == "Dumping /nowhere/0.log\n"


async def test_server_stop_says_that_no_node_runs(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_stop, "_PROCESSES", tmp_path)
    assert await run_tool("kafka-server-stop", ["--node-id=1"]) == 1
    assert capsys.readouterr().out == "No kafka server to stop\n"


class CommandProcess(NodeProcess):
    """A node that the command starts itself: the tool knows nodes by their command lines."""

    def launch(self) -> None:
        ServerProcess.launch(self)


async def test_server_stop_stops_only_the_nodes_that_are_meant_kip_979(tmp_path: Path, capsys: Capture) -> None:
    # Other nodes may run on this machine, so that a test must always name its own.
    node = CommandProcess(tmp_path / "node", {"node.id": "1987654321"})
    node.start()
    try:
        # Kafka's script says nothing either if nodes run and none of them is meant.
        for others in (["--node-id", "1987654320"], ["--node-id=1987654320"], ["--process-role=nothing"]):
            assert await run_tool("kafka-server-stop", others) == 0
            assert capsys.readouterr().out == ""
        assert node.is_running
        both = ["--process-role=nothing", "--node-id=1987654321"]
        assert await run_tool("kafka-server-stop", both) == 0
        assert capsys.readouterr().out == (
            "When both node-id and process-role are provided, the value for node-id will take precedence\n"
        )
        assert node.wait_ended() == 0
    finally:
        node.discard()
