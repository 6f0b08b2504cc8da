"""`kraft random-uuid`: print an id that clusters and directories may have."""

from collections.abc import Sequence

from broker.wire.uuids import encode_uuid, new_uuid
from kraft.env import real_env


def main(argv: Sequence[str]) -> int:
    """Takes no arguments; Kafka's tool ignores any, too."""
    env = real_env(lambda kind, /, **fields: None)
    print(encode_uuid(new_uuid(env.rng.randbytes)))
    return 0
