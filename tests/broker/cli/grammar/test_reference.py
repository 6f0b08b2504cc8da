"""docs/commands.md and docs/commands agree with the grammar."""

import click

from broker.cli.grammar import Exit, kraft
from broker.cli.grammar.command import ClusterCommand, Command
from broker.cli.grammar.reference import reference
from tests.support.source_code import ROOT

DOCS = ROOT / "docs"


def commands(command: click.Command, context: click.Context) -> dict[str, click.Command]:
    """The commands below a group, by their whole names."""
    if not isinstance(command, click.Group):
        return {context.command_path: command}
    found: dict[str, click.Command] = {}
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        found |= commands(inner, click.Context(inner, info_name=name, parent=context))
    return found


COMMANDS = commands(kraft, click.Context(kraft, info_name="kraft"))


def test_the_command_reference_is_made_from_the_grammar() -> None:
    """To update it: `make docs`."""
    pages = [DOCS / "commands.md", *(DOCS / "commands").glob("*.md")]
    assert {str(page.relative_to(DOCS)): page.read_text() for page in pages} == reference()


def test_every_exit_code_is_documented() -> None:
    documented = {
        line.split("|")[1].strip() for line in (DOCS / "commands.md").read_text().splitlines() if line.startswith("| ")
    }
    assert {str(int(code)) for code in Exit} <= documented


def test_every_command_has_a_one_sentence_summary() -> None:
    for name, command in COMMANDS.items():
        first = (command.help or "").split("\n\n")[0]
        assert first.endswith("."), name
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, (name, parameter.name)


def test_every_command_that_asks_a_cluster_prints_json() -> None:
    assert [
        name for name, command in COMMANDS.items() if isinstance(command, ClusterCommand) and command.shape is None
    ] == []


def test_commands_without_json_print_formats_of_other_programs() -> None:
    without = {name for name, command in COMMANDS.items() if isinstance(command, Command) and command.shape is None}
    # Their output is that of nodes, of Kafka's tools, or a shell script.
    assert without == {
        "kraft start",
        "kraft format",
        "kraft dump-log",
        "kraft cluster start",
        "kraft completion",
        "kraft test-server",
    }
