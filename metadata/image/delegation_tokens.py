"""Delegation tokens (KIP-48)."""

from collections import Counter

import attrs

from kraft import lazy_attrs
from metadata.image.persistent_map import PersistentMap, place_text
from metadata.records import DelegationTokenRecord, RemoveDelegationTokenRecord


@lazy_attrs.frozen
class DelegationToken:
    """A token: its holder acts as `owner`. Principals are text, such as "User:alice".

    Times are of the wall clock, in ms since 1970. A token that is not renewed ends at `expires_ms`, and all renewals
    end at `max_ms`.
    """

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    max_ms: int
    expires_ms: int

    def is_expired(self, now_ms: int) -> bool:
        return min(self.max_ms, self.expires_ms) < now_ms

    def is_renewed_by(self, principal: str) -> bool:
        """True if the principal is the owner, or may renew the token in the owner's place."""
        return principal == self.owner or principal in self.renewers

    def record(self) -> DelegationTokenRecord:
        """The record that creates this token."""
        return DelegationTokenRecord(
            owner=self.owner,
            requester=self.requester,
            renewers=self.renewers,
            issue_timestamp=self.issued_ms,
            max_timestamp=self.max_ms,
            expiration_timestamp=self.expires_ms,
            token_id=self.token_id,
        )


@lazy_attrs.frozen
class DelegationTokensImage:
    """All tokens by their ids, and how many tokens each owner has."""

    by_id: PersistentMap[str, DelegationToken] = attrs.field(factory=lambda: PersistentMap(place_text))
    counts: PersistentMap[str, int] = attrs.field(factory=lambda: PersistentMap(place_text))


class DelegationTokensDelta:
    """`changed` holds the new and changed tokens by their ids, and None for removed ids."""

    def __init__(self, base: DelegationTokensImage) -> None:
        self.base = base
        self.changed: dict[str, DelegationToken | None] = {}

    def replay(self, record: DelegationTokenRecord) -> None:
        self.changed[record.token_id] = DelegationToken(
            record.token_id,
            record.owner,
            record.requester,
            record.renewers,
            record.issue_timestamp,
            record.max_timestamp,
            record.expiration_timestamp,
        )

    def replay_remove(self, record: RemoveDelegationTokenRecord) -> None:
        self.changed[record.token_id] = None

    def apply(self) -> DelegationTokensImage:
        before = self.base.by_id
        added = {token_id: token for token_id, token in self.changed.items() if token is not None}
        changes = Counter(token.owner for token in added.values())
        for token_id in self.changed:
            if (old := before.get(token_id)) is not None:
                changes[old.owner] -= 1
        counts = {owner: (self.base.counts.get(owner) or 0) + change for owner, change in changes.items()}
        return DelegationTokensImage(
            before.changed(added, [token_id for token_id, token in self.changed.items() if token is None]),
            self.base.counts.changed(
                {owner: count for owner, count in counts.items() if count},
                [owner for owner, count in counts.items() if not count],
            ),
        )
