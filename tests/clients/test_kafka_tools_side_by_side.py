"""A script written for Kafka's tools runs with this project's tools and with Kafka's own, on our node."""

import os
import re
import shlex
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest

from benchmarks import apache_kafka
from broker.cli.kafka_tools.launchers import install_launchers
from tests.support.node_process import NodeProcess

pytestmark = pytest.mark.clients

_HERE: Final = Path(__file__).parent
_SCRIPT: Final = _HERE / "kafka_tools_session.sh"
_OUTPUT: Final = _HERE / "kafka_tools_session.out"
_KAFKA_CLASSES: Final[Mapping[str, str]] = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs.sh": "org.apache.kafka.tools.ConfigCommand",
    "kafka-console-producer.sh": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-get-offsets.sh": "org.apache.kafka.tools.GetOffsetShell",
}
_JVM_OPTIONS: Final = ["-Xmx128M", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
# As in Kafka's bin/: warnings and errors go to standard error.
_LOGGING: Final = """rootLogger.level = WARN
rootLogger.appenderRef.err.ref = err
appender.err.type = Console
appender.err.name = err
appender.err.target = SYSTEM_ERR
appender.err.layout.type = PatternLayout
"""


def session(node: NodeProcess, tools: Path) -> list[str]:
    """The script's output with these tools first on the PATH, without the parts that differ between runs."""
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "BOOTSTRAP": node.bootstrap}
    done = subprocess.run(
        ["sh", str(_SCRIPT)], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    text = done.stdout.replace(node.bootstrap, "HOST:PORT")
    text = re.sub(r"TopicId: [\w-]{22}", "TopicId: ID", text)
    # The width of the coordinator's column depends on the address.
    text = re.sub(r"HOST:PORT +\(1\) +", "HOST:PORT (1) ", text)
    return text.splitlines()


def test_a_script_for_kafkas_tools_prints_the_same_with_ours(
    tmp_path: Path, new_node: Callable[..., NodeProcess]
) -> None:
    node = new_node(offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=0)
    node.start()
    install_launchers(str(tmp_path / "bin"))
    assert session(node, tmp_path / "bin") == _OUTPUT.read_text().splitlines()
    node.stop()


def test_the_same_script_prints_this_with_kafkas_own_tools(
    tmp_path: Path, new_node: Callable[..., NodeProcess], full: bool, kafka_jars: None
) -> None:
    if not full:
        pytest.skip("twenty JVMs take a minute: --full starts them")
    (tmp_path / "log4j2.properties").write_text(_LOGGING)
    node = new_node(offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=0)
    node.start()
    for name, main in _KAFKA_CLASSES.items():
        _, *options = apache_kafka.java(main, options=_JVM_OPTIONS)
        words = [word for word in options if not word.startswith("-Dlog4j2.")]
        command = shlex.join(["java", f"-Dlog4j2.configurationFile={tmp_path}/log4j2.properties", *words])
        launcher = tmp_path / name
        launcher.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        launcher.chmod(0o755)
    assert session(node, tmp_path) == _OUTPUT.read_text().splitlines()
    node.stop()
