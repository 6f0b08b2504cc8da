"""The command reference, docs/commands.md and docs/commands/, made from the grammar.

It has a page for each group of commands, and one for what all commands have in common and for commands without a group.
`make docs` writes it.
"""

import inspect
from collections.abc import Iterator
from typing import Any, Final

import attrs
import click

from broker.cli.grammar.command import Command
from broker.cli.grammar.options import CLUSTER_OPTIONS_HEADING, split_options
from broker.cli.grammar.root import SECTIONS, kraft
from broker.cli.output.shapes import Kind, Shape, describe_fields, nested_items

_EXIT_CODES: Final = (
    ("0", "done"),
    ("1", "the cluster refused the request, a part of it failed, or a check found a problem"),
    ("2", "wrong arguments, or a wrong file, variable or context; no request was sent to a cluster"),
    ("3", "no server can be reached, or none answered in time"),
    ("4", "a named topic, group, partition or context does not exist, or a named broker is not there"),
    ("130", "ended by Ctrl-C"),
    ("141", "the reader of the output is gone, as in `kraft consume orders \\| head`"),
)
_HEAD: Final = """# Commands

Every command of `kraft`, made from the grammar by `make docs`; a test holds it to that.
"""
_OPTIONS: Final = """
## Options of all commands

**Which cluster.** `-b host:port,...` names brokers; it may stand before or after a command's name. Without it, the
first of these counts: `bootstrap.servers` in the file of `--command-config`, the context of `--context`, the variable
`KRAFT_BOOTSTRAP_SERVERS`, the current context (`KRAFT_CONTEXT`, or the one that `kraft context use` chose),
`localhost:9092`. Other client configs come from the context, the file, and `-X key=value`; the last of these wins.
Commands that a message names repeat these options, so that they ask the same cluster when they are typed as printed.

**Contexts** are named clusters in a file: `$KRAFT_CONFIG`, or `kraft/config.toml` in `$XDG_CONFIG_HOME` (`~/.config`).

    kraft context add staging -b host1:9092,host2:9092 -X client.id=deploy
    kraft context use staging
"""
_BACK: Final = """[All commands](../commands.md) have some options in common, which are not repeated here.

"""
_SINGLE: Final = """## Commands without a group

"""
_MIDDLE: Final = """
**Names from outside.** Names, ids, messages and records come from other machines. Every character of them that is not
printable (controls, line ends, bidirectional and invisible characters, bytes that are not UTF-8) is written as an
escape, such as `\\x1b` or `\\u202e`, in tables, lines and errors; JSON has its own escapes and stays the same
document. Records are rendered only if the output is a terminal: a pipe gets their bytes, and `kraft consume --raw`
writes them to a terminal, too.

**JSON.** `--json` prints objects in place of a table. Their keys are with each command, and will only be added
to. Sizes are in bytes, times in milliseconds. Failures are sentences on standard error either way.

**Exit codes.** A command that does several things goes on after a failure, and ends with the code of the first one.

| code | meaning |
|---|---|
"""
_COMPLETION: Final = """
**Completion.** `eval "$(kraft completion bash)"` in `~/.bashrc`, likewise for zsh; for fish
`kraft completion fish | source`. Commands, options, and names of topics and groups are completed.

"""


def reference() -> dict[str, str]:
    """The pages, by their paths below docs."""
    exit_codes = "".join(f"| {code} | {meaning} |\n" for code, meaning in _EXIT_CODES)
    context = click.Context(kraft, info_name="kraft")
    index, single, pages = list[str](), list[str](), dict[str, str]()
    for heading, commands in SECTIONS.items():
        index.append(f"\n**{heading}**\n\n| command | |\n|---|---|\n")
        for name, _, _ in commands:
            command = kraft.get_command(context, name)
            assert command is not None, "the grammar lists commands that exist"
            if isinstance(command, click.Group):
                place = f"commands/{name}.md"
                head, *rest = _command(command, name, context, 1)
                pages[place] = _page([head, _BACK, *rest])
            else:
                place = f"#kraft-{name}"
                single += _command(command, name, context, 3)
            index.append(f"| [kraft {name}]({place}) | {_summary(command)} |\n")
    parts = [_HEAD, *index, _OPTIONS, _MIDDLE, exit_codes, _COMPLETION, *_cluster_options(), _SINGLE, *single]
    return {"commands.md": _page(parts), **pages}


def _page(parts: list[str]) -> str:
    return "".join(parts).rstrip("\n") + "\n"


def _summary(command: click.Command) -> str:
    return _cell(_help(command).split("\n\n")[0])


def _cluster_options() -> Iterator[str]:
    yield "The options of every command that asks a cluster:\n\n"
    context = click.Context(kraft, info_name="kraft")
    for heading, records in split_options(kraft, context):
        if heading == CLUSTER_OPTIONS_HEADING:
            yield _options(records)


def _command(command: click.Command, name: str, parent: click.Context, level: int) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=parent)
    yield f"{'#' * level} {context.command_path}\n\n{_help(command)}\n\n"
    if isinstance(command, click.Group):
        own = [option for option in command.params if isinstance(option, click.Option)]
        yield from _own_options(command, context) if own else ()
        for each in command.list_commands(context):
            inner = command.get_command(context, each)
            assert inner is not None, "the group lists commands that exist"
            yield from _command(inner, each, context, level + 1)
        return
    yield f"    {context.command_path} {' '.join(command.collect_usage_pieces(context))}\n\n"
    yield from _own_options(command, context)
    if isinstance(command, Command) and command.shape is not None:
        yield from _shape(command.shape)


def _own_options(command: click.Command, context: click.Context) -> Iterator[str]:
    for heading, records in split_options(command, context):
        own = [record for record in records if record[0] not in ("--help", "--json")]
        if heading != CLUSTER_OPTIONS_HEADING and own:
            yield _options(own)


def _options(records: list[tuple[str, str]]) -> str:
    rows = "".join(f"| `{_cell(option)}` | {_cell(meaning)} |\n" for option, meaning in records)
    return f"| option | meaning |\n|---|---|\n{rows}\n"


def _shape(shape: Shape) -> Iterator[str]:
    kinds = {
        Kind.ONE: "an object",
        Kind.LIST: "a list of objects",
        Kind.LINES: "an object on each line",
    }
    yield f"`--json` prints {kinds[shape.kind]}. {_sentences(shape.item)}\n\n{_fields(shape.item)}"
    for item in dict.fromkeys(nested_items(shape.item)):
        yield f"`{item.__name__}`: {_sentences(item)}\n\n{_fields(item)}"


def _fields(item: type[attrs.AttrsInstance]) -> str:
    rows = "".join(f"| `{name}` | {kind} |\n" for name, kind in describe_fields(item))
    return f"| key | value |\n|---|---|\n{rows}\n"


def _sentences(item: type[Any]) -> str:
    return " ".join((item.__doc__ or "").split())


def _help(command: click.Command) -> str:
    """The command's text; paragraphs that click leaves as they are become blocks of code."""
    # The help is a docstring as Python keeps it: indented before 3.13.
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    shown = []
    for paragraph in paragraphs:
        lines = paragraph.split("\n")
        if lines[0] == "\b":
            shown.append("\n".join(f"    {line}" for line in lines[1:]))
        else:
            shown.append(" ".join(" ".join(lines).split()))
    return "\n\n".join(shown)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
