"""The options that every command takes that asks a cluster, and how help shows them apart from the command's own.

They may stand before or after a command's name: `kraft -b host:9092 topics list` is `kraft topics list -b host:9092`.
"""

from collections.abc import Iterator
from typing import Any, Final

import click

from broker.cli.grammar.given_settings import SERVERS_VARIABLE, GivenSettings

CLUSTER_OPTIONS_HEADING: Final = "Cluster options"
_META: Final = "broker.cli."
_NAMES: Final = ("bootstrap_servers", "command_config", "context", "properties", "timeout_ms")


def cluster_options() -> list[click.Parameter]:
    """New instances of the options. Their values are in the context's `meta`, which all levels of a command share."""
    return [
        click.Option(
            ["-b", "--bootstrap-server", "bootstrap_servers"],
            metavar="HOST:PORT,...",
            help=f"Bootstrap brokers; or {SERVERS_VARIABLE}, or a context.",
            **_REMEMBERED,
        ),
        click.Option(
            ["--command-config"],
            metavar="FILE",
            type=click.Path(),
            help="A properties file with client configs.",
            **_REMEMBERED,
        ),
        click.Option(["--context"], metavar="NAME", help="A context of `kraft context list`.", **_REMEMBERED),
        click.Option(
            ["-X", "--property", "properties"],
            metavar="KEY=VALUE",
            multiple=True,
            help="A client config; may be repeated.",
            **_REMEMBERED,
        ),
    ]


def json_option() -> click.Option:
    """`--json`, whose value is in the context's `meta`."""
    return click.Option(["--json", "is_json"], is_flag=True, default=None, help="Print JSON.", **_REMEMBERED)


def given_settings(ctx: click.Context) -> GivenSettings:
    """The cluster settings from all levels of the command line; the last level that gives a setting counts."""
    given = {name: ctx.meta.get(_META + name) for name in ("bootstrap_servers", "command_config", "context")}
    return GivenSettings(**given, properties=tuple(ctx.meta.get(_META + "properties", ())))


def is_json(ctx: click.Context) -> bool:
    """True if the command line asks for JSON."""
    return bool(ctx.meta.get(_META + "is_json"))


def split_options(command: click.Command, ctx: click.Context) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The rows of help by their headings: the command's own options, then those for every cluster."""
    own: list[tuple[str, str]] = []
    shared: list[tuple[str, str]] = []
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
        if record is not None:
            (shared if _is_shared(parameter) else own).append(record)
    for heading, records in (("Options", own), (CLUSTER_OPTIONS_HEADING, shared)):
        if records:
            yield heading, records


def _is_shared(parameter: click.Parameter) -> bool:
    return parameter.name in _NAMES and parameter.callback is _remember


def _remember(ctx: click.Context, parameter: click.Parameter, value: Any) -> Any:
    key = _META + str(parameter.name)
    if isinstance(value, tuple):
        ctx.meta[key] = (*ctx.meta.get(key, ()), *value)
    elif value is not None:
        ctx.meta[key] = value
    else:
        ctx.meta.setdefault(key, None)
    return value


_REMEMBERED: Final[dict[str, Any]] = {"callback": _remember, "expose_value": False}
