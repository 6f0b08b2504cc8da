"""SCRAM credentials of users."""

from collections.abc import Mapping

import attrs

from kraft import lazy_attrs
from metadata.image.persistent_map import PersistentMap, place_text
from metadata.protocol import ScramMechanism
from metadata.protocol.scram import ScramCredential
from metadata.records import RemoveUserScramCredentialRecord, UserScramCredentialRecord

NO_CREDENTIALS: Mapping[ScramMechanism, ScramCredential] = {}


@lazy_attrs.frozen
class ScramImage:
    """The users that have credentials, with a credential per mechanism."""

    users: PersistentMap[str, Mapping[ScramMechanism, ScramCredential]] = attrs.field(
        factory=lambda: PersistentMap(place_text)
    )

    def of(self, user: str) -> Mapping[ScramMechanism, ScramCredential]:
        return self.users.get(user) or NO_CREDENTIALS

    def records(self) -> list[UserScramCredentialRecord]:
        """The records that create this image from an empty one."""
        return [
            UserScramCredentialRecord(
                name=user,
                mechanism=mechanism,
                salt=credential.salt,
                stored_key=credential.stored_key,
                server_key=credential.server_key,
                iterations=credential.iterations,
            )
            for user, credentials in self.users.items()
            for mechanism, credential in credentials.items()
        ]


class ScramDelta:
    """`changed` holds each changed credential of each user, or None for a removed one."""

    def __init__(self, base: ScramImage) -> None:
        self.base = base
        self.changed: dict[str, dict[ScramMechanism, ScramCredential | None]] = {}

    def replay(self, record: UserScramCredentialRecord) -> None:
        credential = ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations)
        self.changed.setdefault(record.name, {})[ScramMechanism(record.mechanism)] = credential

    def replay_remove(self, record: RemoveUserScramCredentialRecord) -> None:
        self.changed.setdefault(record.name, {})[ScramMechanism(record.mechanism)] = None

    def apply(self) -> ScramImage:
        after = {user: self._after(user) for user in self.changed}
        return ScramImage(
            self.base.users.changed(
                {user: credentials for user, credentials in after.items() if credentials},
                [user for user, credentials in after.items() if not credentials],
            )
        )

    def _after(self, user: str) -> Mapping[ScramMechanism, ScramCredential]:
        credentials = {**self.base.of(user), **self.changed[user]}
        return {mechanism: credential for mechanism, credential in credentials.items() if credential is not None}
