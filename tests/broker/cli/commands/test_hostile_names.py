"""Every command and tool, with hostile names as arguments and on the cluster: none reaches the terminal as it is."""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click
import pytest
from confluent_kafka import Consumer, Producer

from broker.cli.grammar.arguments import Parsed
from broker.cli.grammar.command import ClusterCommand
from broker.cli.grammar.root import kraft
from broker.cli.kafka_tools.tools import COMMANDS_AS_TOOLS, NAMES, run_tool
from tests.support.cluster_process import run_command
from tests.support.command_output import leaf_commands, succeed
from tests.support.hostile_text import HOSTILE_BYTES, HOSTILE_NAME, assert_harmless
from tests.support.node_process import NodeProcess
from tests.support.terminal_images import on_a_terminal

TOPIC: Final = "hostile"
# A group with offsets, and one with a member.
GROUP: Final = f"{HOSTILE_NAME}-group"
MEMBERS: Final = f"{HOSTILE_NAME}-members"
# A path that cannot be made.
PATH: Final = f"/dev/null/{HOSTILE_NAME}"
SHARED: Final = {option.name for option in ClusterCommand("any", callback=lambda: None).params}
# Values of options and arguments that have a form of their own.
VALUES: Final = {
    "ids": "1",
    "size": "1",
    "duration": "1s",
    "rate": "1",
    "format": "%t %k %h %s\\n",
    "separator": ",",
    "directory": HOSTILE_NAME,
    "topic": HOSTILE_NAME,
    "header": f"{HOSTILE_NAME}={HOSTILE_NAME}",
}
# Always given, so that a command ends.
ENDINGS: Final = {"consume": ["--exit"], "bench produce": ["-n", "1"], "bench consume": ["-n", "1"]}
# Commands that start nodes or a JVM, and the arguments with which they fail before.
STARTING: Final[dict[str, list[list[str]]]] = {
    "start": [[PATH]],
    "cluster start": [["--dir", PATH], ["--override", HOSTILE_NAME, "--dir", PATH]],
    "test-server": [["--control", HOSTILE_NAME], ["--override", HOSTILE_NAME]],
    "spark load": [[HOSTILE_NAME, "--to", PATH, "--format", HOSTILE_NAME]],
    "spark replay": [[PATH, "--as-fast", HOSTILE_NAME]],
    "spark stats": [["--records", HOSTILE_NAME]],
    "spark check": [["--anomalies", HOSTILE_NAME]],
}


COMMANDS: Final = {" ".join(path): command for path, command in leaf_commands(kraft)}


def value_of(parameter: click.Parameter) -> str:
    kind = parameter.type
    if isinstance(kind, click.Choice):
        return str(kind.choices[0])
    if isinstance(kind, click.types.IntParamType | click.types.FloatParamType):
        return "1"
    if isinstance(kind, Parsed):
        return VALUES[kind.name]
    if any(word in (parameter.metavar or "") for word in ("FILE", "DIR", "PATH")):
        return PATH
    if "TIME" in (parameter.metavar or "") or "OFFSET" in (parameter.metavar or ""):
        return HOSTILE_NAME
    return f"{HOSTILE_NAME}={HOSTILE_NAME}" if "=" in (parameter.metavar or "") else HOSTILE_NAME


def given(parameter: click.Parameter) -> list[str]:
    return [value_of(parameter)] if isinstance(parameter, click.Argument) else [parameter.opts[0], value_of(parameter)]


def command_lines(name: str) -> Iterator[list[str]]:
    """The command with what it requires, and the same with each of its other options."""
    if name in STARTING:
        yield from STARTING[name]
        return
    parameters = [each for each in COMMANDS[name].params if each.name not in SHARED or each.name == "properties"]
    needed = [each for each in parameters if each.required or isinstance(each, click.Argument)]
    least = [word for each in needed for word in given(each)]
    options = [
        each for each in parameters if isinstance(each, click.Option) and each not in needed and not each.is_flag
    ]
    yield [*ENDINGS.get(name, ()), *least]
    for option in options:
        yield [*ENDINGS.get(name, ()), *least, *given(option)]


@pytest.fixture(scope="module")
def _node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node of this module: other tests list all groups and quotas of theirs."""
    overrides = {"offsets.topic.replication.factor": "1", "offsets.topic.num.partitions": "3"}
    overrides |= {"transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1"}
    node = NodeProcess(tmp_path_factory.mktemp("hostile") / "node", overrides)
    try:
        node.start()
        yield node
    finally:
        node.discard()


@pytest.fixture(scope="module")
def populated(_node: NodeProcess) -> Iterator[NodeProcess]:
    """The node with a topic of hostile records, and groups, members, transactions and quotas of hostile names."""
    server = {"bootstrap.servers": _node.bootstrap}
    at = ("-b", _node.bootstrap)
    succeed("topics", "create", TOPIC, "-p", "1", *at)
    producer = Producer(server)
    producer.produce(TOPIC, HOSTILE_BYTES, key=HOSTILE_BYTES, headers=[(HOSTILE_NAME, HOSTILE_BYTES)])
    assert producer.flush(30) == 0
    succeed("groups", "reset-offsets", GROUP, "-t", TOPIC, "--to-latest", "--execute", *at)
    succeed("quotas", "set", f"user={HOSTILE_NAME}", f"client-id={HOSTILE_NAME}", "producer_byte_rate=1000000", *at)
    transactional = Producer({**server, "transactional.id": HOSTILE_NAME})
    transactional.init_transactions(30)
    member = Consumer({**server, "group.id": MEMBERS, "client.id": HOSTILE_NAME, "auto.offset.reset": "earliest"})
    member.subscribe([TOPIC])
    assert member.poll(30) is not None
    yield _node
    member.close()


@pytest.fixture
def ready(
    populated: NodeProcess, node: NodeProcess, impatient: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[NodeProcess]:
    monkeypatch.chdir(tmp_path)  # some commands make files and directories of the given names
    with open(os.devnull) as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        yield node


@pytest.mark.parametrize("name", COMMANDS)
def test_no_argument_of_a_command_controls_the_terminal(name: str, ready: NodeProcess) -> None:
    for arguments in command_lines(name):
        answer = run_command(*name.split(" "), *arguments)
        assert_harmless(answer.errors)
        assert_harmless(answer.output)


@pytest.mark.parametrize("name", COMMANDS)
def test_name_that_is_too_long_for_the_protocol_ends_a_command_with_a_sentence(name: str, ready: NodeProcess) -> None:
    arguments = [word.replace(HOSTILE_NAME, "x" * 40_000) for word in next(command_lines(name))]
    answer = run_command(*name.split(" "), *arguments)
    assert answer.errors.count("\n") <= 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["groups", "list"],
        ["groups", "describe", GROUP, MEMBERS],
        ["groups", "lag"],
        ["transactions", "list"],
        ["transactions", "describe", HOSTILE_NAME],
        ["transactions", "describe-producers", "--topic", TOPIC, "--partition", "0"],
        ["quotas", "list"],
        ["configs", "list"],
    ],
)
def test_no_name_on_the_cluster_controls_the_terminal(arguments: list[str], ready: NodeProcess) -> None:
    for form in ([], ["--json"]):
        answer = run_command(*arguments, *form)
        assert answer.errors == ""
        assert_harmless(answer.output)
        if form:
            json.loads(answer.output)
    assert "\\x1b]0;x\\x07" in run_command("groups", "list").output


def test_a_name_that_is_not_utf_8_is_refused_in_a_sentence(ready: NodeProcess) -> None:
    answer = run_command("topics", "describe", "a\udc80")
    assert (answer.code, answer.output) == (2, "")
    assert "cannot be written in UTF-8" in answer.errors
    assert answer.errors.count("\n") == 1


def test_records_are_rendered_on_a_terminal_unless_raw_bytes_are_asked_for(ready: NodeProcess) -> None:
    read = ("consume", TOPIC, "--exit", "--isolation-level", "read_uncommitted")
    for form in (["-f", "%t %k %h %s\\n"], ["--json"]):
        output = on_a_terminal(*read, *form)
        assert output.count("\n") == 1
        assert_harmless(output)
    raw = HOSTILE_BYTES.decode(errors="surrogateescape")
    assert raw in run_command(*read).output
    assert raw.replace("\r\n", "\n") in on_a_terminal(*read, "--raw").replace("\r\n", "\n")
    console = on_a_terminal(*_console_consumer(ready), tool="kafka-console-consumer")
    assert_harmless(console.removesuffix("Processed a total of 1 messages\n"))


def test_dumped_records_are_rendered_on_a_terminal(ready: NodeProcess) -> None:
    log = str(ready.data_dir / f"{TOPIC}-0" / f"{0:020}.log")
    output = on_a_terminal("dump-log", "--files", log, "--print-data-log", columns=10_000)
    assert_harmless(output)
    assert "payload: x\\n\\r\\x1b]0;x" in output


TOOLS: Final[dict[str, Sequence[Sequence[str]]]] = {
    "kafka-topics": [["--describe", "--topic", HOSTILE_NAME], ["--create", "--topic", HOSTILE_NAME]],
    "kafka-console-producer": [["--topic", HOSTILE_NAME, "--line-reader", HOSTILE_NAME]],
    "kafka-console-consumer": [["--topic", TOPIC, "--formatter", HOSTILE_NAME]],
    "kafka-consumer-groups": [
        ["--list"],
        ["--list", "--state"],
        ["--describe", "--all-groups"],
        ["--describe", "--all-groups", "--members", "--verbose"],
        ["--describe", "--all-groups", "--state"],
        ["--delete", "--group", MEMBERS],
        ["--delete-offsets", "--group", MEMBERS, "--topic", TOPIC],
        ["--reset-offsets", "--group", GROUP, "--topic", TOPIC, "--to-latest", "--dry-run"],
        ["--reset-offsets", "--group", MEMBERS, "--topic", TOPIC, "--to-latest", "--dry-run"],
        ["--describe", "--group", f"{HOSTILE_NAME}-absent"],
    ],
    "kafka-console-share-consumer": [["--topic", TOPIC, "--group", HOSTILE_NAME, "--formatter", HOSTILE_NAME]],
    "kafka-share-groups": [
        ["--reset-offsets", "--group", f"{GROUP}-share", "--topic", TOPIC, "--to-earliest", "--execute"],
        ["--list"],
        ["--list", "--state", HOSTILE_NAME],
        ["--describe", "--all-groups"],
        ["--describe", "--all-groups", "--state", "--verbose"],
        ["--describe", "--group", f"{GROUP}-share", "--members"],
        ["--describe", "--group", f"{HOSTILE_NAME}-absent"],
        ["--delete-offsets", "--group", f"{GROUP}-share", "--topic", HOSTILE_NAME],
        ["--delete", "--group", f"{GROUP}-share", "--group", HOSTILE_NAME],
    ],
    "kafka-groups": [["--list"], ["--list", "--group-type", HOSTILE_NAME]],
    "kafka-features": [["describe"], ["upgrade", "--feature", f"{HOSTILE_NAME}=1"], [HOSTILE_NAME]],
    "kafka-cluster": [["cluster-id", "--config", HOSTILE_NAME]],
    "kafka-acls": [
        ["--add", "--topic", HOSTILE_NAME],
        ["--add", "--topic", HOSTILE_NAME, "--allow-principal", f"User:{HOSTILE_NAME}", "--allow-host", HOSTILE_NAME],
        ["--list", "--topic", HOSTILE_NAME],
    ],
    "kafka-server-stop": [["--node-id", HOSTILE_NAME]],
    "kafka-configs": [
        ["--describe", "--entity-type", "users"],
        ["--describe", "--entity-type", "groups", "--entity-name", HOSTILE_NAME],
        ["--alter", "--entity-type", "topics", "--entity-name", HOSTILE_NAME, "--add-config", f"a={HOSTILE_NAME}"],
    ],
    "kafka-get-offsets": [["--topic", TOPIC, "--time", HOSTILE_NAME]],
    "kafka-delete-records": [["--offset-json-file", PATH]],
    "kafka-storage": [["info", "--config", PATH]],
    "kafka-log-dirs": [["--describe", "--topic-list", HOSTILE_NAME]],
    "kafka-reassign-partitions": [["--verify", "--reassignment-json-file", PATH]],
    "kafka-leader-election": [["--election-type", HOSTILE_NAME]],
    "kafka-delegation-tokens": [
        ["--describe", "--command-config", PATH, "--owner-principal", HOSTILE_NAME],
        ["--describe", "--command-config", "/dev/null", "--owner-principal", f"User:{HOSTILE_NAME}"],
        ["--create", "--command-config", "/dev/null", "--max-life-time-period", "1", "--owner-principal", HOSTILE_NAME],
    ],
    "kafka-transactions": [
        ["list"],
        ["describe", "--transactional-id", HOSTILE_NAME],
        ["describe", "--transactional-id", f"{HOSTILE_NAME}-absent"],
    ],
    "kafka-broker-api-versions": [[]],
    "kafka-producer-perf-test": [["--topic", TOPIC, "--payload-file", PATH]],
    "kafka-consumer-perf-test": [["--topic", TOPIC, "--num-records", HOSTILE_NAME]],
}


@pytest.mark.parametrize("name", [name for name in NAMES if name not in COMMANDS_AS_TOOLS])
async def test_no_name_controls_the_terminal_of_a_tool(
    name: str, ready: NodeProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in TOOLS[name]:
        await run_tool(name, ["--bootstrap-server", ready.bootstrap, *arguments])
        output, errors = capsys.readouterr()
        assert_harmless(output)
        assert_harmless(errors)


def _console_consumer(node: NodeProcess) -> list[str]:
    printed = [word for part in ("key", "headers") for word in ("--formatter-property", f"print.{part}=true")]
    one = ["--partition", "0", "--offset", "earliest", "--max-messages", "1", "--topic", TOPIC]
    return ["--bootstrap-server", node.bootstrap, *one, *printed]
