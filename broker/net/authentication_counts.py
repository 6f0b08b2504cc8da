"""Counts of the authentications of a node's clients, by SASL and by TLS."""

from collections import Counter

import attrs

from kraft import lazy_attrs


@lazy_attrs.frozen(eq=False)
class AuthenticationCounts:
    """Outcomes by listener, as Kafka counts them.

    A client on a listener without SASL authenticates by its TLS handshake; without TLS, it does not at all. A handshake
    that fails counts on every listener with TLS. Those `again` are later authentications of a connection (KIP-368).
    `expired` are connections that were closed because their client sent a request after its session.
    """

    succeeded: Counter[str] = attrs.field(factory=Counter)
    failed: Counter[str] = attrs.field(factory=Counter)
    succeeded_again: Counter[str] = attrs.field(factory=Counter)
    failed_again: Counter[str] = attrs.field(factory=Counter)
    expired: Counter[str] = attrs.field(factory=Counter)

    def note(self, listener: str, *, has_succeeded: bool, is_again: bool = False) -> None:
        """Count the end of one authentication."""
        if is_again:
            counter = self.succeeded_again if has_succeeded else self.failed_again
        else:
            counter = self.succeeded if has_succeeded else self.failed
        counter[listener] += 1
