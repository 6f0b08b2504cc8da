"""Reads JSON objects that come from outside: parts of tokens, and responses of identity providers."""

import binascii
import json
from base64 import b64decode
from typing import Any, Final, NoReturn

# Far above the tokens of identity providers, which have to fit into the headers of HTTP requests: some 8 KiB.
TOKEN_BYTES_MAX: Final = 64 * 1024


class MalformedJson(ValueError):
    """The bytes are not a JSON object."""


def read_object(data: bytes | str) -> dict[str, Any]:
    """The members of a JSON object. Raises MalformedJson, also for NaN and infinities, which are not JSON."""
    try:
        found = json.loads(data, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise MalformedJson("malformed JSON") from None
    if not isinstance(found, dict):
        raise MalformedJson("no JSON object")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def split_token(token: str) -> tuple[str, str, str]:
    """The header, the claims and the signature of a token, encoded as they are. Raises MalformedJson."""
    if len(token) > TOKEN_BYTES_MAX:
        raise MalformedJson(f"a token of {len(token)} bytes, where at most {TOKEN_BYTES_MAX} are read")
    parts = token.split(".")
    if len(parts) != 3 or not parts[0] or not parts[1]:
        raise MalformedJson("a token has three parts, separated by dots")
    header, claims, signature = parts
    return header, claims, signature


def decode_part(part: str) -> dict[str, Any]:
    """The JSON object of a token's header or claims. Raises MalformedJson."""
    unpadded = part.rstrip("=")
    try:
        data = b64decode(unpadded + "=" * (-len(unpadded) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise MalformedJson("a part of the token is not Base64") from None
    return read_object(data)
