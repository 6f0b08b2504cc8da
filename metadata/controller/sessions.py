"""Which brokers are alive, as far as the controller has heard. Soft state: it never reaches the log.

Only brokers that are not fenced have a session. It ends when a broker was silent for the session timeout, or soon after
a connection with it broke: a process that died has its connections reset by its kernel, and waiting any longer would
only leave its partitions without a leader. A live broker whose connection broke comes back at once and is heard again.

A controller that takes over starts all sessions anew, since it cannot know when its predecessor last heard from whom.
Such a session is presumed: it keeps its broker from being fenced, but does not prove that its process lives.

Times are milliseconds of one steady clock.
"""

from collections.abc import Iterable

import attrs

from metadata.image import ClusterImage

NOT_KNOWN = -1


@attrs.define
class Session:
    """`metadata_offset` is how far the broker has followed the log. `suspect_since_ms` is None while nobody doubts it.

    `shutdown_offset` is what the others have to have seen before a broker that is shutting down may go.
    """

    last_contact_ms: float
    presumed: bool
    metadata_offset: int = NOT_KNOWN
    suspect_since_ms: float | None = None
    shutdown_offset: int | None = None
    reprieved_until_ms: float = 0


class BrokerSessions:
    """`timeout_ms` is broker.session.timeout.ms; `grace_ms` is how long a suspect has to make itself heard."""

    def __init__(self, timeout_ms: float, grace_ms: float) -> None:
        self._timeout_ms = timeout_ms
        self._grace_ms = grace_ms
        self._sessions: dict[int, Session] = {}

    def reset(self, cluster: ClusterImage, offset: int, now_ms: float) -> None:
        """This controller takes over; `offset` is the last one of its image."""
        self._sessions.clear()
        for broker in cluster.brokers.values():
            if not broker.fenced:
                session = self._sessions[broker.broker_id] = Session(now_ms, presumed=True)
                session.shutdown_offset = offset if broker.in_controlled_shutdown else None

    def update(self, cluster: ClusterImage, changed: Iterable[int], offset: int, now_ms: float) -> None:
        """The registrations of the brokers `changed` are others now; `offset` is that of the change."""
        for broker_id in changed:
            broker = cluster.brokers.get(broker_id)
            if broker is None or broker.fenced:
                self._sessions.pop(broker_id, None)
                continue
            session = self._sessions.setdefault(broker_id, Session(now_ms, presumed=False))
            if not broker.in_controlled_shutdown:
                session.shutdown_offset = None
            elif session.shutdown_offset is None:
                session.shutdown_offset = offset

    def record_contact(self, broker_id: int, metadata_offset: int, now_ms: float) -> None:
        """A heartbeat came, or a registration, of which the offset is NOT_KNOWN."""
        if session := self._sessions.get(broker_id):
            session.last_contact_ms = now_ms
            session.presumed = False
            session.suspect_since_ms = None
            session.metadata_offset = metadata_offset

    def connection_lost(self, broker_id: int, now_ms: float) -> None:
        """The connection over which the broker was heard is gone."""
        session = self._sessions.get(broker_id)
        if session is not None and session.suspect_since_ms is None:
            session.suspect_since_ms = now_ms

    def is_suspect(self, broker_id: int) -> bool:
        session = self._sessions.get(broker_id)
        return session is not None and session.suspect_since_ms is not None

    def confirm_gone(self, broker_id: int, now_ms: float) -> None:
        """The process of a suspect is known to be gone: there is nobody left to be waited for."""
        session = self._sessions.get(broker_id)
        if session is not None and session.suspect_since_ms is not None:
            session.suspect_since_ms = now_ms - self._grace_ms

    def connection_reset(self, broker_id: int, now_ms: float) -> None:
        """Some other connection with the broker's process broke, or was refused.

        This tells nothing about a broker that is heard over a connection that still stands.
        """
        session = self._sessions.get(broker_id)
        if session is not None and session.presumed:
            self.connection_lost(broker_id, now_ms)

    def is_proven(self, broker_id: int, now_ms: float) -> bool:
        """Whether there certainly was a process a moment ago that is this broker."""
        session = self._sessions.get(broker_id)
        if session is None or session.presumed or session.suspect_since_ms is not None:
            return False
        return session.last_contact_ms + self._timeout_ms > now_ms

    def expired(self, now_ms: float) -> list[int]:
        """Brokers that have to be fenced, those first whose time was up first."""
        late = [(self._ends_ms(session), broker_id) for broker_id, session in self._sessions.items()]
        return [broker_id for ends_ms, broker_id in sorted(late) if ends_ms <= now_ms]

    def next_end_ms(self) -> float | None:
        """When `expired` has somebody to tell of, unless more is heard; None without sessions."""
        return min(map(self._ends_ms, self._sessions.values()), default=None)

    def extend_expired(self, now_ms: float) -> None:
        """The controller's own process did not run for a while, and heartbeats may lie unread in its sockets.

        Whoever is late meanwhile gets the time of a suspect to be heard.
        """
        for session in self._sessions.values():
            if self._ends_ms(session) <= now_ms:
                session.reprieved_until_ms = now_ms + self._grace_ms

    def shutdown_offset(self, broker_id: int) -> int | None:
        session = self._sessions.get(broker_id)
        return None if session is None else session.shutdown_offset

    def metadata_offset(self, broker_id: int) -> int:
        """How far the broker has followed the log, or NOT_KNOWN."""
        session = self._sessions.get(broker_id)
        return NOT_KNOWN if session is None else session.metadata_offset

    def _ends_ms(self, session: Session) -> float:
        ends_ms = session.last_contact_ms + self._timeout_ms
        if session.suspect_since_ms is not None:
            ends_ms = min(ends_ms, session.suspect_since_ms + self._grace_ms)
        return max(ends_ms, session.reprieved_until_ms)
