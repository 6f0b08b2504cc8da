"""Names of the cluster's own for shell completion. A cluster that does not answer soon offers none."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

import click
import trio

from broker.cli.grammar.failures import EXPECTED
from broker.cli.grammar.options import given_settings
from broker.cli.grammar.settings import resolve_settings

if TYPE_CHECKING:
    from broker.client.admin import Admin

# The user waits for it after pressing the tab key.
_TIMEOUT_S: Final = 2


def complete_topic(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The topics that begin with what is typed."""
    return _offered(context, incomplete, _topics)


def complete_group(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The groups that begin with what is typed."""
    return _offered(context, incomplete, _groups)


async def _topics(admin: "Admin") -> list[str]:
    return [topic.name for topic in await admin.list_topics()]


async def _groups(admin: "Admin") -> list[str]:
    return [group.group_id for groups in (await admin.list_groups()).succeeded.values() for group in groups]


def _offered(context: click.Context, incomplete: str, ask: "Callable[[Admin], Awaitable[Sequence[str]]]") -> list[str]:
    names: list[str] = []

    async def collect() -> None:
        from broker.cli.grammar.clients import open_admin

        with trio.move_on_after(_TIMEOUT_S):
            async with open_admin(resolve_settings(given_settings(context))) as admin:
                names.extend(await ask(admin))

    try:
        trio.run(collect)
    except* EXPECTED:
        names.clear()
    # A shell puts the names on the terminal, one a line.
    return sorted(name for name in names if name.startswith(incomplete) and name.isprintable())
