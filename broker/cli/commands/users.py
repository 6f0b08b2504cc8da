"""`kraft users`: list, set and remove the SCRAM credentials of users (KIP-554)."""

import os
import sys
from collections.abc import Sequence
from typing import Final

import attrs
import click

from broker.cli.errors import UnreadableFile
from broker.cli.grammar import ClusterCommand, CommandFailed, CommandGroup, Exit, Invocation, WrongSettings
from broker.cli.node_config import read_file
from broker.cli.output import Column, list_of
from broker.client.admin import ScramDeletion, ScramMechanism, ScramUpsertion
from broker.printable import printable
from broker.wire.errors import ErrorCode, KafkaError
from metadata.protocol.scram import ITERATIONS_MAX, ITERATIONS_MIN

_MECHANISMS: Final = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}


@attrs.frozen
class UserRow:
    """A credential of a user, without its secret."""

    user: str
    mechanism: str
    iterations: int


@attrs.frozen
class ChangedUser:
    """A credential that was set or removed."""

    user: str
    mechanism: str
    removed: bool


@click.group("users", cls=CommandGroup)
def users() -> None:
    """See, set and remove passwords of users that authenticate with SCRAM.

    Passwords are never arguments, which others on the machine can read: they come from a prompt, a file or a variable.
    """


@users.command("list", cls=ClusterCommand, shape=list_of(UserRow))
@click.argument("names", nargs=-1, metavar="[USER...]")
async def list_users(invocation: Invocation, names: Sequence[str]) -> None:
    """List users and their mechanisms; only some users, if they are named."""
    async with invocation.admin() as admin:
        found = (await admin.describe_user_scram_credentials(names or None)).raise_first()
    rows = [
        UserRow(user, each.mechanism.sasl_name, each.iterations)
        for user, credentials in sorted(found.items())
        for each in credentials
    ]
    columns: Sequence[Column[UserRow]] = (
        Column("user", lambda row: row.user),
        Column("mechanism", lambda row: row.mechanism),
        Column("iterations", lambda row: str(row.iterations), is_number=True),
    )
    invocation.printer.rows(rows, columns, empty="There are no users with SCRAM credentials.")


@users.command("set", cls=ClusterCommand, shape=list_of(ChangedUser))
@click.argument("user")
@click.option(
    "--mechanism",
    type=click.Choice(tuple(_MECHANISMS)),
    default="SCRAM-SHA-512",
    show_default=True,
    help="For this one.",
)
@click.option(
    "--iterations",
    type=click.IntRange(ITERATIONS_MIN, ITERATIONS_MAX),
    default=ITERATIONS_MIN,
    show_default=True,
    help="More make guessing take longer, and logging in too.",
)
@click.option("--password-file", metavar="FILE", help="Read the password from a file; a line end after it is left out.")
@click.option("--password-env", metavar="VARIABLE", help="Read the password from a variable of the environment.")
async def set_(
    invocation: Invocation,
    user: str,
    mechanism: str,
    iterations: int,
    password_file: str | None,
    password_env: str | None,
) -> None:
    """Set a user's password, of a new user or an existing one. Without an option, it is asked for on the terminal."""
    password = _password(user, password_file, password_env)
    async with invocation.admin() as admin:
        upsertion = ScramUpsertion(user, _MECHANISMS[mechanism], password, iterations)
        (await admin.alter_user_scram_credentials([upsertion])).raise_first()
    invocation.printer.each([ChangedUser(user, mechanism, False)], _done)


@users.command("remove", cls=ClusterCommand, shape=list_of(ChangedUser))
@click.argument("user")
@click.option("--mechanism", type=click.Choice(tuple(_MECHANISMS)), help="Only for this one; without it, for all.")
async def remove(invocation: Invocation, user: str, mechanism: str | None) -> None:
    """Remove a user's passwords. Its connections end when they have to authenticate again."""
    done = []
    async with invocation.admin() as admin:
        try:
            found = (await admin.describe_user_scram_credentials([user])).value(user)
        except KafkaError as error:
            if error.code != ErrorCode.RESOURCE_NOT_FOUND:
                raise
            found = []
        wanted = [each.mechanism for each in found if mechanism in (None, each.mechanism.sasl_name)]
        if not wanted:
            message = f"{printable(user)} has no such credential; list them with `kraft users list`"
            raise CommandFailed(message, Exit.NOT_FOUND)
        for each in wanted:
            (await admin.alter_user_scram_credentials([ScramDeletion(user, each)])).raise_first()
            done.append(ChangedUser(user, each.sasl_name, True))
    invocation.printer.each(done, _done)


def _done(row: ChangedUser) -> str:
    return f"{'removed' if row.removed else 'set'} the {row.mechanism} password of {row.user}"


def _password(user: str, file: str | None, variable: str | None) -> str:
    """Raises WrongSettings."""
    if file is not None and variable is not None:
        raise WrongSettings("give one of --password-file and --password-env")
    if file is not None:
        try:
            password = read_file(file).decode().rstrip("\r\n")
        except (UnreadableFile, UnicodeDecodeError) as error:
            raise WrongSettings(f"the password cannot be read from {file}: {error}") from error
    elif variable is not None:
        password = os.environ.get(variable, "")
    elif sys.stdin.isatty():
        password = click.prompt(f"Password of {printable(user)}", hide_input=True, confirmation_prompt=True, err=True)
    else:
        raise WrongSettings("there is no terminal to ask for the password; give --password-file or --password-env")
    if not password:
        raise WrongSettings("the password is empty")
    return password
