"""Reads PEM as Kafka does: also with text around the blocks, and with blanks in place of the ends of lines.

A properties file joins the lines of a value, so an inline certificate often comes as one line, which OpenSSL does not
read. The blocks are written again in the form that OpenSSL reads.
"""

import re
from typing import Final

_BLOCK: Final = re.compile(r"-+BEGIN ([A-Z0-9 ]{1,40})-+\s+(.*?)-+END \1-+", re.DOTALL)
_BASE64: Final = re.compile(r"[A-Za-z0-9+/=]+")
_LINE: Final = 64


class MalformedPem(ValueError):
    """The text has not the blocks that it has to have."""


def certificates(text: str) -> str:
    """The certificates in a text, as PEM. Raises MalformedPem if there is none."""
    found = [block for label, block in _blocks(text) if label in ("CERTIFICATE", "TRUSTED CERTIFICATE")]
    if not found:
        raise MalformedPem("At least one certificate expected, but none found")
    return "".join(found)


def private_key(text: str) -> str:
    """The private key in a text, as PEM. Raises MalformedPem if there is not exactly one."""
    found = [block for label, block in _blocks(text) if label.endswith("PRIVATE KEY")]
    if not found:
        raise MalformedPem("Private key not provided")
    if len(found) > 1:
        raise MalformedPem(f"Expected one private key, but found {len(found)}")
    return found[0]


def is_encrypted(key: str) -> bool:
    """True if a private key can be read only with a password."""
    return "ENCRYPTED PRIVATE KEY" in key or "Proc-Type:" in key


def _blocks(text: str) -> list[tuple[str, str]]:
    """The label of each block, and the block itself."""
    return [(match[1].strip(), _block(match[1].strip(), match[2])) for match in _BLOCK.finditer(text)]


def _block(label: str, body: str) -> str:
    if ":" in body:  # headers, such as those of an encrypted key in OpenSSL's old format
        lines = body
    else:
        base64 = "".join(body.split())
        if not _BASE64.fullmatch(base64):
            raise MalformedPem(f"a {label} that is not base64")
        lines = "".join(f"{base64[start : start + _LINE]}\n" for start in range(0, len(base64), _LINE))
    return f"-----BEGIN {label}-----\n{lines}-----END {label}-----\n"
