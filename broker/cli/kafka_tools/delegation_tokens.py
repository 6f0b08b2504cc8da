"""kafka-delegation-tokens: creates, renews, expires and describes tokens (DelegationTokenCommand.java).

As with Kafka's tool, the HMAC of a token is an option, so that other users of the machine can see it in the list of
processes. `kraft tokens` takes the token's id instead. Unlike Kafka's tool, this one does not print the HMAC again.
"""

from argparse import Namespace
from base64 import b64decode
from binascii import Error
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from broker.cli.kafka_tools.argument_parser import ToolParser
from broker.cli.kafka_tools.clients import admin_of_brokers, read_properties
from broker.cli.kafka_tools.options import UsageFailure, long
from broker.cli.printing import print_text
from broker.client.admin import Admin, DelegationToken
from broker.printable import printable

_NAME: Final = "kafka-delegation-tokens.sh"
_ACTIONS: Final = ("create", "renew", "expire", "describe")


async def run(arguments: Sequence[str]) -> int:
    """Runs the tool and returns its exit code."""
    options = _parser().parse_args(arguments)
    actions = [action for action in _ACTIONS if getattr(options, action)]
    if len(actions) != 1:
        raise UsageFailure("Command must include exactly one action: --create, --renew, --expire or --describe")
    action = actions[0]
    _check(action, options)
    async with admin_of_brokers(options.bootstrap_server, read_properties(options.command_config)) as admin:
        await _run(admin, action, options)
    return 0


def _parser() -> ToolParser:
    parser = ToolParser(_NAME, description="Creates, renews, expires and describes delegation tokens.")
    parser.add_argument("--bootstrap-server", metavar="host:port", required=True, help="The brokers to connect to.")
    parser.add_argument(
        "--command-config", metavar="FILE", required=True, help="A properties file with configs of the client."
    )
    for action in _ACTIONS:
        parser.add_argument(f"--{action}", action="store_true", help=f"{action.capitalize()} a delegation token.")
    parser.add_argument("--owner-principal", action="append", default=[], help="The owner, such as User:alice.")
    parser.add_argument("--renewer-principal", action="append", default=[], help="A user who may renew the token.")
    parser.add_argument("--max-life-time-period", type=long, help="The longest time in ms; -1 for the brokers' one.")
    parser.add_argument("--renew-time-period", type=long, help="How long in ms from now on; -1 for the brokers' time.")
    parser.add_argument("--expiry-time-period", type=long, help="How long in ms from now on; -1 expires it now.")
    parser.add_argument("--hmac", help="The HMAC of the token, in Base64.")
    return parser


def _check(action: str, options: Namespace) -> None:
    """Raises UsageFailure if an option of the action is missing."""
    needed = {
        "create": ("max_life_time_period",),
        "renew": ("hmac", "renew_time_period"),
        "expire": ("hmac", "expiry_time_period"),
        "describe": (),
    }[action]
    for name in needed:
        if getattr(options, name) is None:
            raise UsageFailure(f"Missing required argument: --{name.replace('_', '-')}")
    if action == "create" and len(options.owner_principal) > 1:
        raise UsageFailure("A token has one owner")


async def _run(admin: Admin, action: str, options: Namespace) -> None:
    if action == "create":
        renewers = f"[{', '.join(map(printable, options.renewer_principal))}]"
        print_text(
            f"Calling create token operation with renewers :{renewers} , max-life-time-period "
            f":{options.max_life_time_period}"
        )
        token = await admin.create_delegation_token(
            owner=next(iter(options.owner_principal), None),
            renewers=options.renewer_principal,
            max_lifetime_ms=options.max_life_time_period,
        )
        print_text(f"Created delegation token with tokenId : {printable(token.token_id)}")
        _print_tokens([token])
    elif action == "renew":
        expires_ms = await admin.renew_delegation_token(_hmac(options), renew_period_ms=options.renew_time_period)
        print_text(f"Completed renew operation. New expiry date : {_date(expires_ms)}")
    elif action == "expire":
        expires_ms = await admin.expire_delegation_token(_hmac(options), expiry_period_ms=options.expiry_time_period)
        print_text(f"Completed expire operation. New expiry date : {_date(expires_ms)}")
    else:
        owners = f"[{', '.join(map(printable, options.owner_principal))}]"
        what = f"for owners: {owners}" if options.owner_principal else "for current user."
        print_text(f"Calling describe token operation {what}")
        tokens = await admin.describe_delegation_tokens(options.owner_principal or None)
        print_text(f"Total number of tokens : {len(tokens)}")
        _print_tokens(tokens)


def _hmac(options: Namespace) -> bytes:
    try:
        return b64decode(options.hmac, validate=True)
    except Error:
        raise UsageFailure("--hmac is not Base64") from None


def _print_tokens(tokens: Sequence[DelegationToken]) -> None:
    print_text(
        f"\n{'TOKENID':<15} {'HMAC':<30} {'OWNER':<15} {'REQUESTER':<15} {'RENEWERS':<25} {'ISSUEDATE':<15} "
        f"{'EXPIRYDATE':<15} {'MAXDATE':<15}"
    )
    for token in tokens:
        texts = (token.token_id, token.hmac_base64, token.owner, token.requester, f"[{', '.join(token.renewers)}]")
        times = (token.issue_timestamp_ms, token.expiry_timestamp_ms, token.max_timestamp_ms)
        widths = (15, 30, 15, 15, 25, 15, 15, 15)
        cells = (*map(printable, texts), *map(_date, times))
        print_text("\n" + " ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)))


def _date(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M")
