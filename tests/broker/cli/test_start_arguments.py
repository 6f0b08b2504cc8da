"""`kraft start` reads its usual arguments without the command framework, and as the framework reads them."""

import subprocess
import sys

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cli.commands.start import start
from broker.cli.start_arguments import StartArguments, read_start_arguments
from tests.support.cluster_process import run_command

TOKENS = st.sampled_from(
    [
        "--override",
        "--override=a=b",
        "--override=",
        "--stop-at-eof",
        "--log-level",
        "--log-level=warning",
        "--log-level=loud",
        "--log-format",
        "--log-format=json",
        "debug",
        "json",
        "a=b",
        "server.properties",
        "",
        "-",
        "--",
        "--x",
        "-h",
    ]
)


@given(st.lists(TOKENS, max_size=6))
def test_arguments_are_parsed_as_by_the_grammar(argv: list[str]) -> None:
    plain = read_start_arguments(argv)
    if plain is None:
        return
    try:
        params = start.make_context("start", list(argv)).params
    except click.ClickException as error:
        raise AssertionError(f"the grammar refuses {argv}: {error}") from error
    assert plain == StartArguments(
        params["properties"], params["overrides"], params["stop_at_eof"], params["log_level"], params["log_format"]
    )


@pytest.mark.parametrize("argv", [["--help"], ["--overide", "a=b"], ["--override"], ["one", "two"], ["--"]])
def test_other_arguments_are_left_to_the_grammar(argv: list[str]) -> None:
    assert read_start_arguments(argv) is None


def test_a_mistyped_option_is_refused_with_the_right_one() -> None:
    answer = run_command("start", "--overide", "a=b")
    assert (answer.code, answer.output) == (2, "")
    assert "--override" in answer.errors


def test_help_names_the_arguments() -> None:
    answer = run_command("start", "--help")
    assert answer.code == 0
    assert "--override KEY=VALUE" in answer.output


def test_a_node_does_not_load_the_tools_beside_it() -> None:
    """A node's process runs for months. Unused modules would cost start time and memory."""
    program = (
        "import sys; from broker.cli import main; import broker.cli.start; "
        "print([name for name in ('click', 'rich', 'broker.cli.grammar') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_help_and_version_load_no_client() -> None:
    """They take a tenth of a second less without Trio, attrs and the client library."""
    program = (
        "import sys; from broker.cli import main; code = main(['--version']) or main(['--help']); "
        "print([name for name in ('trio', 'attr', 'broker.client', 'broker.wire', 'metadata') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_node_without_security_loads_only_the_interface_of_sasl() -> None:
    """The mechanisms, the authorizer and TLS are imported where the configuration asks for them."""
    program = (
        "import sys; from broker.cli import main; import broker.cli.start; from broker.node import Node; "
        "from broker.cli.node_config import read_node_config; from kraft.env import real_env; "
        "Node(real_env(lambda kind, /, **fields: None), read_node_config(None, [])); "
        "print([name for name in sorted(sys.modules) "
        "if name.startswith('broker.security') or name in ('cryptography', 'jwt', 'broker.node.sasl_mechanisms')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "['broker.security', 'broker.security.sasl', 'broker.security.sasl.exchange']\n"
