"""The HMAC of a delegation token (KIP-48), which its holder shows. It follows from the token's id and a secret key."""

import hmac


def token_hmac(secret_key: str, token_id: str) -> bytes:
    """The HMAC by SHA-512, as Kafka makes it: a cluster that takes over Kafka's secret key accepts its tokens."""
    return hmac.digest(secret_key.encode(), token_id.encode(), "sha512")
