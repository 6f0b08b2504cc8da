"""The zygote's preparation: what a node needs for its start is there when the node is forked."""

import subprocess
import sys
from pathlib import Path

# A node starts and stops in the prepared process. It must not import modules, nor compile codecs or methods of classes.
PROGRAM = """
import builtins, random, sys, trio
import broker.cli.local_cluster
from jepsen.testing.preparation import prepare

for _ in prepare():
    pass

from broker.cli.node_config import read_node_config
from broker.node import Node
from kraft.env import real_env

built, compiler, before = [], compile, set(sys.modules)


def compile_noted(source, filename, *others, **options):
    built.append(str(filename))
    return compiler(source, filename, *others, **options)


class Serving:
    def started(self, value=None):
        node.stop()


builtins.compile = compile_noted
listeners = "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"
node = Node(real_env(lambda kind, /, **fields: None), read_node_config(None, [listeners, f"log.dirs={sys.argv[1]}"]))
trio.run(lambda: node.run(task_status=Serving()))
print(sorted(set(sys.modules) - before), built)
"""


def test_node_of_a_prepared_process_imports_and_compiles_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "[] []\n"
