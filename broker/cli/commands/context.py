"""`kraft context`: name clusters, and choose the one that commands ask."""

from collections.abc import Mapping, Sequence
from typing import Final

import attrs
import click

from broker.cli.grammar import Command, CommandGroup, Invocation, WrongSettings
from broker.cli.grammar.contexts import NAME, Contexts, contexts_path, load_contexts, save_contexts
from broker.cli.grammar.options import given_settings
from broker.cli.grammar.settings import SERVERS_KEY, parse_settings, read_command_config
from broker.cli.output import Column, list_of, one
from broker.client.config import is_secret

_HIDDEN: Final = "..."


@attrs.frozen
class ContextRow:
    """A named cluster. `configs` are its other client configs, with `...` in place of secrets."""

    name: str
    is_current: bool
    bootstrap_servers: str
    configs: dict[str, str]


@click.group("context", cls=CommandGroup)
def context() -> None:
    """Name clusters, and choose the one that commands ask."""


@context.command("list", cls=Command, shape=list_of(ContextRow))
def list_contexts(invocation: Invocation) -> None:
    """Show all contexts."""
    contexts = load_contexts()
    invocation.printer.rows(
        [_row(contexts, name) for name in contexts.by_name],
        [
            Column("", lambda row: "*" if row.is_current else ""),
            Column("name", lambda row: row.name),
            Column("bootstrap servers", lambda row: row.bootstrap_servers),
            Column("configs", lambda row: _shown(row.configs)),
        ],
        empty="There are no contexts; `kraft context add` makes one.",
    )


@context.command("show", cls=Command, shape=one(ContextRow))
@click.argument("name", required=False)
def show(invocation: Invocation, name: str | None) -> None:
    """Show a context; by default the current one."""
    contexts = load_contexts()
    chosen = contexts.current if name is None else name
    if chosen is None:
        raise WrongSettings("No context is current; `kraft context use NAME` chooses one.")
    row = _row(contexts, chosen)
    configs = {SERVERS_KEY: row.bootstrap_servers, **row.configs}
    invocation.printer.one(row, [f"# {row.name}, in {contexts_path()}", *(f"{key}={configs[key]}" for key in configs)])


@context.command("add", cls=Command, shape=one(ContextRow))
@click.argument("name")
@click.option("-b", "--bootstrap-server", "servers", metavar="HOST:PORT,...", help="Bootstrap brokers.")
@click.option("--command-config", "path", metavar="FILE", help="A properties file; its configs are copied.")
@click.option("-X", "--property", "configs", metavar="KEY=VALUE", multiple=True, help="A client config.")
def add(invocation: Invocation, name: str, servers: str | None, path: str | None, configs: Sequence[str]) -> None:
    """Add a context, or replace the one of this name. The first one becomes the current one."""
    if not NAME.fullmatch(name):
        raise WrongSettings(f"{name!r} is not a name for a context; use letters, digits, '.', '_' and '-'.")
    given = given_settings(click.get_current_context())
    from_file: Mapping[str, str] = {} if path is None else read_command_config(path)
    all_configs = {**from_file, **parse_settings((*given.properties, *configs))}
    servers = servers or given.bootstrap_servers
    if servers is not None:
        all_configs[SERVERS_KEY] = servers
    if not all_configs.get(SERVERS_KEY):
        raise WrongSettings("A context needs a cluster; give --bootstrap-server.")
    contexts = load_contexts().added(name, all_configs)
    save_contexts(contexts)
    row = _row(contexts, name)
    current = "the current one" if row.is_current else f"`kraft context use {name}` makes it the current one"
    invocation.printer.one(row, [f"Added context {name}; {current}."])


@context.command("use", cls=Command, shape=one(ContextRow))
@click.argument("name")
def use(invocation: Invocation, name: str) -> None:
    """Make a context the current one."""
    contexts = load_contexts().used(name)
    save_contexts(contexts)
    row = _row(contexts, name)
    invocation.printer.one(row, [f"Commands ask {row.bootstrap_servers} now, context {name}."])


@context.command("remove", cls=Command, shape=one(ContextRow))
@click.argument("name")
def remove(invocation: Invocation, name: str) -> None:
    """Remove a context; the cluster is not touched."""
    contexts = load_contexts()
    save_contexts(contexts.removed(name))
    invocation.printer.one(_row(contexts, name), [f"Removed context {name}."])


def _row(contexts: Contexts, name: str) -> ContextRow:
    configs = {key: _HIDDEN if is_secret(key) else value for key, value in contexts.get(name).items()}
    servers = configs.pop(SERVERS_KEY, "")
    return ContextRow(name, name == contexts.current, servers, configs)


def _shown(configs: Mapping[str, str]) -> str:
    return " ".join(f"{key}={value}" for key, value in configs.items())
