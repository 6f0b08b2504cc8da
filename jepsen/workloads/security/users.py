"""The passwords and delegation tokens of the users, as the clients of a run know them."""

from random import Random
from typing import Final

import attrs

from jepsen.values import IssuedToken
from metadata.protocol import ScramMechanism

# Sessions of one mechanism end, and those of the other one do not: only these teach brokers to take shortcuts.
ENDING: Final = ScramMechanism.SCRAM_SHA_256
ENDLESS: Final = ScramMechanism.SCRAM_SHA_512
MECHANISMS: Final = (ENDING, ENDLESS)
# Shares of log-ins with an earlier password of the user, with one that no user ever had, and with a token.
_FORMER_SHARE: Final = 0.1
_WRONG_SHARE: Final = 0.05
_TOKEN_SHARE: Final = 0.15


@attrs.frozen
class Secret:
    """The password of a user or, with `token_id`, that of one of the user's delegation tokens."""

    password: str
    token_id: str = ""


class Users:
    """`names` are the users whose passwords change. `lifetime_ms_max` bounds the sessions of `ENDING`."""

    def __init__(self, names: tuple[str, ...], lifetime_ms_max: int) -> None:
        self.names = names
        self._lifetime_ms_max = lifetime_ms_max
        self._passwords: dict[tuple[str, ScramMechanism], list[str]] = {}
        self._tokens: dict[str, list[IssuedToken]] = {}

    def lifetime_ms_max(self, mechanism: ScramMechanism) -> int:
        return self._lifetime_ms_max if mechanism is ENDING else 0

    def has_password(self, user: str, mechanism: ScramMechanism, password: str) -> None:
        """Remember the latest password of a user, which clients use from now on."""
        self._passwords.setdefault((user, mechanism), []).append(password)

    def has_token(self, user: str, token: IssuedToken) -> None:
        self._tokens.setdefault(user, []).append(token)

    def secret(self, user: str, mechanism: ScramMechanism, rng: Random) -> Secret:
        """A secret for a log-in: most often the right one."""
        known, tokens, chance = self._passwords.get((user, mechanism), []), self._tokens.get(user, []), rng.random()
        if chance < _FORMER_SHARE and len(known) > 1:
            return Secret(rng.choice(known[:-1]))
        if chance < _FORMER_SHARE + _WRONG_SHARE or not known:
            return Secret("never set")
        if tokens and rng.random() < _TOKEN_SHARE:
            token = rng.choice(tokens)
            is_wrong = rng.random() < _WRONG_SHARE
            return Secret("no password of a token" if is_wrong else token.password, token.token_id)
        return Secret(known[-1])
