"""SCRAM credentials of users as kafka-configs writes them: `SCRAM-SHA-256=[iterations=8192,password=secret]`."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from broker.cli.kafka_tools.options import ToolExit
from broker.client.admin import Admin, ScramDeletion, ScramMechanism, ScramUpsertion
from metadata.protocol.scram import ITERATIONS_MIN

MECHANISMS: Final = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}
_CREDENTIAL: Final = re.compile(r"(?:iterations=(-1|[0-9]{1,9}),)?password=(.*)", re.DOTALL)
_SECRET: Final = re.compile(r"(password=)[^\]]*", re.DOTALL)


def is_about_credentials(kinds: Sequence[str], keys: Sequence[str]) -> bool:
    """True if some of the configs are credentials. Raises ToolExit if others are not."""
    found = [key in MECHANISMS for key in keys]
    if tuple(kinds) != ("users",) or not any(found):
        return False
    if not all(found):
        raise ToolExit(
            1,
            "Cannot alter both quota and SCRAM credential configs simultaneously for 'users' using --bootstrap-server.",
        )
    return True


async def alter_credentials(admin: Admin, user: str, added: Mapping[str, str], deleted: Sequence[str]) -> None:
    """Sets and removes credentials of a user. Raises ToolExit, KafkaError, ClientError."""
    if not user:
        raise ToolExit(
            1,
            "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials using "
            "--bootstrap-server.",
        )
    deletions = [ScramDeletion(user, MECHANISMS[key]) for key in deleted]
    upsertions = [_upsertion(user, key, text) for key, text in added.items()]
    (await admin.alter_user_scram_credentials([*deletions, *upsertions])).raise_first()


def without_passwords(command: str) -> str:
    """The arguments of a command for a message."""
    return _SECRET.sub(r"\1[hidden]", command)


def _upsertion(user: str, mechanism: str, text: str) -> ScramUpsertion:
    match = _CREDENTIAL.fullmatch(text)
    if match is None:
        raise ToolExit(1, f"Invalid credential property {mechanism}: it is [iterations=N,password=P] or [password=P]")
    iterations = ITERATIONS_MIN if match[1] in (None, "-1") else int(match[1])
    return ScramUpsertion(user, MECHANISMS[mechanism], match[2], iterations)
