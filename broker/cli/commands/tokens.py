"""`kraft tokens`: create, list, renew and remove delegation tokens (KIP-48)."""

from collections.abc import Sequence

import attrs
import click

from broker.cli.grammar import ClusterCommand, CommandFailed, CommandGroup, Invocation
from broker.cli.grammar.arguments import DURATION
from broker.cli.grammar.units import format_time_ms
from broker.cli.output import Column, list_of, one
from broker.client.admin import Admin, DelegationToken


@attrs.frozen
class TokenRow:
    """A token. Times are in ms since 1970: it expires at `expires_ms`, and can be renewed until `max_ms`."""

    token_id: str
    owner: str
    requester: str
    renewers: list[str]
    issued_ms: int
    expires_ms: int
    max_ms: int


@attrs.frozen
class NewToken:
    """A new token with its secret: the HMAC in Base64, which is the password of its holders."""

    token_id: str
    hmac: str
    owner: str
    expires_ms: int
    max_ms: int


@attrs.frozen
class ChangedToken:
    """A token that was renewed, or that expires at another time; null if it was removed."""

    token_id: str
    expires_ms: int | None


@click.group("tokens", cls=CommandGroup)
def tokens() -> None:
    """Create, list, renew and remove delegation tokens.

    The holder of a token acts as its owner. A client authenticates with SCRAM: the token's id is the user name, its
    HMAC the password, and the login module has the option tokenauth="true".
    """


@tokens.command("create", cls=ClusterCommand, shape=one(NewToken))
@click.option("--owner", metavar="PRINCIPAL", help="Act as this principal, such as User:alice; by default as yourself.")
@click.option("--renewer", "renewers", multiple=True, metavar="PRINCIPAL", help="May renew the token, too; repeatable.")
@click.option("--max-lifetime", type=DURATION, help="The longest time with renewals; by default the brokers' one.")
async def create(invocation: Invocation, owner: str | None, renewers: Sequence[str], max_lifetime: int | None) -> None:
    """Create a token, and print its HMAC."""
    async with invocation.admin() as admin:
        token = await admin.create_delegation_token(
            owner=None if owner is None else _principal(owner),
            renewers=[_principal(each) for each in renewers],
            max_lifetime_ms=max_lifetime,
        )
    made = NewToken(token.token_id, token.hmac_base64, token.owner, token.expiry_timestamp_ms, token.max_timestamp_ms)
    invocation.printer.one(
        made,
        (
            f"token {made.token_id} of {made.owner} expires at {format_time_ms(made.expires_ms)} unless it is renewed",
            f"HMAC: {made.hmac}",
        ),
    )


@tokens.command("list", cls=ClusterCommand, shape=list_of(TokenRow))
@click.argument("owner", nargs=-1, metavar="[PRINCIPAL...]")
async def list_tokens(invocation: Invocation, owner: Sequence[str]) -> None:
    """List the tokens that you own, may renew or may see; only those of some owners, if they are named."""
    async with invocation.admin() as admin:
        found = await admin.describe_delegation_tokens([_principal(each) for each in owner] or None)
    rows = [
        TokenRow(
            each.token_id,
            each.owner,
            each.requester,
            list(each.renewers),
            each.issue_timestamp_ms,
            each.expiry_timestamp_ms,
            each.max_timestamp_ms,
        )
        for each in sorted(found, key=lambda token: (token.owner, token.issue_timestamp_ms))
    ]
    columns: Sequence[Column[TokenRow]] = (
        Column("token", lambda row: row.token_id),
        Column("owner", lambda row: row.owner),
        Column("renewers", lambda row: " ".join(row.renewers)),
        Column("expires", lambda row: format_time_ms(row.expires_ms)),
        Column("renewable until", lambda row: format_time_ms(row.max_ms)),
    )
    invocation.printer.rows(rows, columns, empty="There are no tokens.")


@tokens.command("renew", cls=ClusterCommand, shape=one(ChangedToken))
@click.argument("token_id", metavar="TOKEN")
@click.option("--for", "period", type=DURATION, help="How long from now on; by default the brokers' time.")
async def renew(invocation: Invocation, token_id: str, period: int | None) -> None:
    """Renew a token, so that it expires later."""
    async with invocation.admin() as admin:
        token = await _find(admin, token_id)
        expires_ms = await admin.renew_delegation_token(token.hmac, renew_period_ms=period)
    _print_expiration(invocation, token_id, expires_ms)


@tokens.command("expire", cls=ClusterCommand, shape=one(ChangedToken))
@click.argument("token_id", metavar="TOKEN")
@click.option("--after", type=DURATION, help="Keep the token for this time; without it, the token is removed now.")
async def expire(invocation: Invocation, token_id: str, after: int | None) -> None:
    """Remove a token, or have it expire after a time."""
    async with invocation.admin() as admin:
        token = await _find(admin, token_id)
        expires_ms = await admin.expire_delegation_token(token.hmac, expiry_period_ms=after)
    if after is None:
        invocation.printer.one(ChangedToken(token_id, None), [f"token {token_id} is removed"])
    else:
        _print_expiration(invocation, token_id, expires_ms)


async def _find(admin: Admin, token_id: str) -> DelegationToken:
    """The token with this id: its HMAC is needed, and does not belong on a command line. Raises CommandFailed."""
    for token in await admin.describe_delegation_tokens():
        if token.token_id == token_id:
            return token
    raise CommandFailed(f"there is no token {token_id} that you may see; list them with `kraft tokens list`")


def _print_expiration(invocation: Invocation, token_id: str, expires_ms: int) -> None:
    invocation.printer.one(
        ChangedToken(token_id, expires_ms), [f"token {token_id} expires at {format_time_ms(expires_ms)}"]
    )


def _principal(text: str) -> str:
    return text if ":" in text else f"User:{text}"
