"""Names of cipher suites: Kafka's configs have Java's, OpenSSL has its own for TLS 1.2."""

import re
from typing import Final

# The suites of TLS 1.3 that OpenSSL has by default. Python cannot choose among them.
TLS_1_3_SUITES: Final = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
_JAVA_NAME: Final = re.compile(r"TLS_([A-Z0-9_]+)_WITH_([A-Z0-9_]+)")
_CIPHER: Final = re.compile(r"(AES|CAMELLIA|ARIA)_(128|256)_(GCM|CBC|CCM|CCM_8)(?:_(SHA\d*))?")


def openssl_name(name: str) -> str:
    """OpenSSL's name of a suite of TLS 1.2; a name that has not Java's form is returned as it is."""
    match = _JAVA_NAME.fullmatch(name)
    if match is None:
        return name
    exchange = "" if match[1] == "RSA" else match[1].replace("_", "-") + "-"
    return exchange + _cipher(match[2])


def _cipher(name: str) -> str:
    match = _CIPHER.fullmatch(name)
    if match is None:
        return name.removesuffix("_SHA256").replace("_", "-")  # CHACHA20_POLY1305_SHA256
    mode = {"GCM": "-GCM", "CBC": "", "CCM": "-CCM", "CCM_8": "-CCM8"}[match[3]]
    return f"{match[1]}{match[2]}{mode}" + (f"-{match[4]}" if match[4] else "")
