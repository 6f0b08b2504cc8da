"""The grammar as a whole: help, similar names, versions, exit codes, and error messages."""

import ast
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import click
import pytest

from broker.cli import grammar
from broker.cli.grammar import Exit
from broker.cli.grammar.arguments import parse_topic_partitions
from broker.cli.grammar.exports import EXPORTS
from broker.cli.grammar.root import kraft
from broker.cli.grammar.units import parse_time_ms
from tests.support.cluster_process import run_command
from tests.support.command_output import leaf_commands
from tests.support.source_code import is_within, read_modules


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["strat"], "kraft has no command 'strat': did you mean 'start'?"),
        (["quorum", "descibe"], "kraft quorum has no command 'descibe': did you mean 'describe'?"),
        (["zzz"], "kraft has no command 'zzz': the commands are start, format, "),
        (["context", "list", "--jsn"], "--json"),
    ],
)
def test_a_mistyped_name_is_refused_with_a_near_one(arguments: list[str], hint: str) -> None:
    answer = run_command(*arguments)
    assert (answer.code, answer.output) == (Exit.USAGE, "")
    assert hint in answer.errors
    assert answer.errors.count("\n") == 1


def test_help_lists_every_command() -> None:
    answer = run_command("--help")
    assert answer.code == Exit.OK
    for name in ("start", "format", "dump-log", "cluster", "quorum", "context", "completion"):
        assert f"\n  {name} " in answer.output


def test_no_arguments_print_the_help_and_are_an_error() -> None:
    answer = run_command()
    assert (answer.code, answer.output) == (Exit.USAGE, "")
    assert "Usage: kraft" in answer.errors


def test_the_version_is_that_of_the_package() -> None:
    assert run_command("--version") == (Exit.OK, f"kraft {version('kraft')}\n", "")


def test_ctrl_c_while_modules_are_imported_ends_without_a_traceback() -> None:
    program = """
import sys

class Interrupt:
    def find_spec(self, name, path, target=None):
        if name == "broker.cli.grammar":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
from broker.cli import main
sys.exit(main(["cluster", "health"]))
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stderr) == (Exit.INTERRUPTED, "")


def test_a_missing_option_is_named_with_the_way_to_help() -> None:
    answer = run_command("dump-log")
    assert answer.code == Exit.USAGE
    assert answer.errors == "kraft: Missing option '--files'. See: kraft dump-log --help\n"


NUMBERS = [
    pytest.param(parameter, id=f"{' '.join(path)} {parameter.opts[0]}")
    for path, command in leaf_commands(kraft)
    for parameter in command.params
    if parameter.type.name in ("integer range", "rate", "integer", "float", "size", "duration")
]


@pytest.mark.parametrize("parameter", NUMBERS)
def test_a_number_of_an_option_is_written_in_digits_and_has_64_bits(parameter: click.Parameter) -> None:
    for text in ("", " ", "x", "nan", "inf", "1_000", "\u0663", "9" * 400, "0x1", "1e999", "--1"):
        with pytest.raises(click.BadParameter):
            pytest.fail(f"{text!r} is {parameter.type.convert(text, parameter, None)!r}")


def test_times_before_1970_do_not_become_other_requests() -> None:
    for text in ("-99999d", "1969-12-31T23:59:59.999", "1900-01-01"):
        assert parse_time_ms(text, 1_000) == 0


def test_ranges_of_partitions_are_bounded() -> None:
    for text in ("orders:0-2147483647", "orders:\u0663", "orders:-1", "orders:1-0", "orders:,", f"orders:{'9' * 5000}"):
        with pytest.raises(ValueError, match="orders"):
            parse_topic_partitions(text)


def test_commands_print_by_the_functions_that_render() -> None:
    """A bare print would put names from outside on a terminal as they are."""
    allowed = {"broker.cli.printing", "broker.cli.event_printer"}
    bare = {"print", "sys.stdout.write", "sys.stderr.write", "click.echo"}
    found = [
        f"{name}:{node.lineno}"
        for name, module in read_modules().items()
        if is_within(name, "broker.cli") and name not in allowed
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) in bare
    ]
    assert found == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_ask_kraft(shell: str) -> None:
    answer = run_command("completion", shell)
    assert answer.code == Exit.OK, answer.errors
    assert "_KRAFT_COMPLETE" in answer.output


def test_a_shell_completes_commands() -> None:
    environment = {"_KRAFT_COMPLETE": "bash_complete", "COMP_WORDS": "kraft quor", "COMP_CWORD": "1"}
    command = [sys.executable, "-m", "broker.cli"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "plain,quorum\n"


def test_a_closed_pipe_ends_a_command_quietly() -> None:
    command = f"{sys.executable} -m broker.cli completion bash | true"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode in (Exit.OK, Exit.OUTPUT_CLOSED)
    assert done.stderr == ""


def test_names_of_the_package_are_those_that_type_checkers_read() -> None:
    listed = ast.parse(Path(grammar.__file__).read_text())
    modules = {
        alias.name: node.module
        for node in ast.walk(listed)
        if isinstance(node, ast.ImportFrom) and node.module != "typing"
        for alias in node.names
        if alias.name == alias.asname and not alias.name.startswith("_")
    }
    assert modules == {name: f"{grammar.__name__}.{module}" for name, module in EXPORTS.items()}
    assert all(getattr(grammar, name) is not None for name in EXPORTS)
    assert not hasattr(grammar, "nothing")
