"""The two kinds of commands: those that ask a cluster, and those that do not."""

from collections.abc import Collection
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click
import trio

from broker.cli.grammar.failures import Exit, exit_code_of, sentence
from broker.cli.grammar.options import cluster_options, given_settings, is_json, json_option, split_options
from broker.cli.grammar.printed_commands import for_same_cluster
from broker.cli.grammar.settings import ClusterSettings, resolve_settings
from broker.cli.output.printer import Printer
from broker.cli.output.shapes import Shape
from broker.client.types import TopicPartition
from broker.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from broker.client.admin import Admin, Results

V = TypeVar("V")


class Invocation:
    """One run of a command: where its output goes, and what has failed so far."""

    def __init__(self, ctx: click.Context, shape: Shape | None) -> None:
        self.exit_code = Exit.OK
        self._given = given_settings(ctx)
        self.printer = Printer(shape, is_json=is_json(ctx), render=partial(for_same_cluster, given=self._given))

    def cluster(self) -> ClusterSettings:
        """The cluster to ask. Raises CommandFailed."""
        return resolve_settings(self._given)

    def admin(self) -> "AbstractAsyncContextManager[Admin]":
        """An Admin of the cluster. Raises CommandFailed, ClientError."""
        from broker.cli.grammar.clients import open_admin

        return open_admin(self.cluster())

    def succeeded(
        self, results: "Results[Any, V]", what: str, *, ignored: Collection[ErrorCode] = ()
    ) -> "dict[Any, V]":
        """The values of the items that did not fail; failures are reported, apart from those with ignored codes."""
        for item, error in results.failed.items():
            if not (isinstance(error, KafkaError) and error.code in ignored):
                self.fail(error, f"{what} {shown_item(item)}")
        return results.succeeded

    def fail(self, error: Exception, what: str | None = None) -> None:
        """Report that a part of the command has failed; the command goes on, and ends with the failure's exit code."""
        self.exit_code = self.exit_code or exit_code_of(error)
        subject = "" if what is None else f"{what}: "
        self.printer.note(f"kraft: {subject}{sentence(error)}")


class Command(click.Command):
    """A command. Its function gets an `Invocation` and the parameters by name.

    `shape` is what it prints with `--json`; a command without one has no such option.
    """

    def __init__(self, *args: Any, shape: Shape | None = None, **attributes: Any) -> None:
        self.shape = shape
        options = self._shared_options() if shape is None else [json_option(), *self._shared_options()]
        attributes["params"] = [*(attributes.get("params") or ()), *options]
        super().__init__(*args, **attributes)

    def invoke(self, ctx: click.Context) -> int:
        assert self.callback is not None, "every command has a function"
        invocation = Invocation(ctx, self.shape)
        self._run(partial(self.callback, invocation, **ctx.params))
        return invocation.exit_code

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, records in split_options(self, ctx):
            with formatter.section(heading):
                formatter.write_dl(records)

    def _shared_options(self) -> list[click.Parameter]:
        return []

    def _run(self, call: Any) -> None:
        call()


class ClusterCommand(Command):
    """A command that asks a cluster. Its function is async."""

    def _shared_options(self) -> list[click.Parameter]:
        return cluster_options()

    def _run(self, call: Any) -> None:
        trio.run(call)


def shown_item(item: object) -> str:
    """An item of a call, as messages name it: `orders-3` for a partition, its name for a resource.

    The resource without a name stands for the configs that all brokers have.
    """
    if isinstance(item, TopicPartition):
        return f"{item.topic}-{item.partition}"
    return str(getattr(item, "name", item)) or "default"
