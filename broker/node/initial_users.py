"""Users with SCRAM credentials that a cluster begins with (KIP-900).

They are records of the first snapshot. Without them, no client could authenticate to add the first administrator. The
syntax is that of Kafka's storage tool: `SCRAM-SHA-256=[name=alice,password=secret]`, with `iterations`, `salt` and
`saltedpassword` as Kafka has them. `passwordfile` names a file with the password instead, because other users of a
machine can read the arguments of a command.
"""

import binascii
from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from broker.security.sasl.mechanisms import SCRAM_MECHANISMS
from metadata.controller.scram import USER_NAME_LENGTH_MAX, scram_record
from metadata.protocol import ScramMechanism
from metadata.protocol.scram import ITERATIONS_MAX, ITERATIONS_MIN, salted_password
from metadata.records import UserScramCredentialRecord

RandomBytes: TypeAlias = Callable[[int], bytes]

_SALT_BYTES: Final = 32
_KNOWN: Final = ("name", "salt", "iterations", "password", "passwordfile", "saltedpassword")


class InvalidUser(Exception):
    """The text does not describe a user; the message is for the operator, and has no password."""


def initial_user(mechanism: str, name: str, password: str, random_bytes: RandomBytes) -> UserScramCredentialRecord:
    """The record of a user with a password. `mechanism` is its name, such as SCRAM-SHA-512."""
    salt = random_bytes(_SALT_BYTES)
    number = SCRAM_MECHANISMS[mechanism]
    salted = salted_password(number, password, salt, ITERATIONS_MIN)
    return scram_record(name, number, salted, salt, ITERATIONS_MIN)


def parse_user(text: str, read_file: Callable[[str], bytes], random_bytes: RandomBytes) -> UserScramCredentialRecord:
    """Read the value of `--add-scram`. Raises InvalidUser, and the errors of `read_file`."""
    mechanism, settings = _parse(text.strip())
    if "name" not in settings:
        raise InvalidUser("You must supply 'name' to add-scram")
    if len(settings["name"]) > USER_NAME_LENGTH_MAX or not settings["name"]:
        raise InvalidUser(f"The name of a user must have 1 to {USER_NAME_LENGTH_MAX} characters")
    salt = _decoded("salt", settings["salt"]) if "salt" in settings else random_bytes(_SALT_BYTES)
    iterations = _iterations(settings.get("iterations", str(ITERATIONS_MIN)), mechanism)
    if "passwordfile" in settings:
        password: str | None = _text(read_file(settings["passwordfile"]))
    else:
        password = settings.get("password")
    if password is not None:
        salted = salted_password(mechanism, password, salt, iterations)
    elif "saltedpassword" not in settings:
        raise InvalidUser("You must supply one of 'password' or 'saltedpassword' to add-scram")
    elif "salt" not in settings:
        raise InvalidUser("You must supply 'salt' with 'saltedpassword' to add-scram")
    else:
        salted = _decoded("saltedpassword", settings["saltedpassword"])
    return scram_record(settings["name"], mechanism, salted, salt, iterations)


def _parse(text: str) -> tuple[ScramMechanism, Mapping[str, str]]:
    name, equals, config = text.partition("=")
    if not equals:
        raise InvalidUser("Failed to find equals sign in the SCRAM argument")
    if name not in SCRAM_MECHANISMS:
        raise InvalidUser(f"The add-scram mechanism {name} is not supported.")
    for edge, is_there in (("start with [", config.startswith("[")), ("end with ]", config.endswith("]"))):
        if not is_there:
            raise InvalidUser(f"Expected configuration string to {edge}")
    settings: dict[str, str] = {}
    for component in config[1:-1].split(","):
        key, equals, value = component.partition("=")
        if not equals:
            raise InvalidUser("No equals sign found in a SCRAM component")  # which may be a part of a password
        is_quoted = len(value) >= 2 and value[0] == value[-1] == '"'
        settings[key] = value[1:-1] if is_quoted else value
    unknown = sorted(set(settings).difference(_KNOWN))
    if unknown:
        raise InvalidUser(f"Unknown SCRAM configurations: {', '.join(unknown)}")
    return SCRAM_MECHANISMS[name], settings


def _iterations(text: str, mechanism: ScramMechanism) -> int:
    if not (text.isascii() and text.removeprefix("-").isdigit()) or len(text) > len(str(ITERATIONS_MAX)):
        raise InvalidUser(f"Failed to parse iterations count: {text}")
    iterations = int(text)
    name = mechanism.sasl_name
    if iterations < ITERATIONS_MIN:
        raise InvalidUser(f"The 'iterations' value must be >= {ITERATIONS_MIN} for add-scram using {name}")
    if iterations > ITERATIONS_MAX:
        raise InvalidUser(f"The 'iterations' value must be <= {ITERATIONS_MAX} for add-scram using {name}")
    return iterations


def _text(content: bytes) -> str:
    try:
        return content.decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise InvalidUser("The password in the file is not UTF-8") from error


def _decoded(key: str, text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidUser(f"Failed to decode given {key}") from error
