"""`kraft random-uuid`: print an id that clusters and directories may have."""

import attrs
import click

from broker.cli.grammar import Command, Invocation
from broker.cli.output import one
from broker.wire.uuids import encode_uuid, new_uuid
from kraft.env import real_env


@attrs.frozen
class NewId:
    uuid: str


@click.command("random-uuid", cls=Command, shape=one(NewId))
def random_uuid(invocation: Invocation) -> None:
    """Print a new id for a cluster or a directory."""
    env = real_env(lambda kind, /, **fields: None)
    new = NewId(encode_uuid(new_uuid(env.rng.randbytes)))
    invocation.printer.one(new, [new.uuid])
