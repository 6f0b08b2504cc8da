"""Sessions of the brokers that are not fenced. Soft state of the active controller, which is not in the log.

A session expires without a heartbeat for the session timeout, or soon after a connection with the broker broke. The
kernel resets the connections of a process that died, and waiting longer would only leave partitions without a leader. A
live broker reconnects at once after its connection broke, and sends a heartbeat.

A controller that becomes active starts new sessions, because it does not know the last heartbeats to its predecessor.
Such a session is presumed: it keeps the broker from being fenced, but does not prove that its process is alive.

Times are milliseconds of one monotonic clock.
"""

from collections.abc import Iterable

from kraft import lazy_attrs
from metadata.image import ClusterImage

NOT_KNOWN = -1


@lazy_attrs.define
class Session:
    """`metadata_offset` is the last offset that the broker has replayed.

    `suspect_since_ms` is the time at which a connection with the broker broke, or None. `shutdown_offset` is the offset
    that the other brokers have to replay before the broker may stop, if it is shutting down.
    """

    last_contact_ms: float
    presumed: bool
    metadata_offset: int = NOT_KNOWN
    suspect_since_ms: float | None = None
    shutdown_offset: int | None = None
    reprieved_until_ms: float = 0


class BrokerSessions:
    """`timeout_ms` is broker.session.timeout.ms; `grace_ms` is the time that a suspect has to send a heartbeat."""

    def __init__(self, timeout_ms: float, grace_ms: float) -> None:
        self._timeout_ms = timeout_ms
        self._grace_ms = grace_ms
        self._sessions: dict[int, Session] = {}

    def reset(self, cluster: ClusterImage, offset: int, now_ms: float) -> None:
        """Start new sessions when this controller becomes active. `offset` is the last one of its image."""
        self._sessions.clear()
        for broker in cluster.brokers.values():
            if not broker.fenced:
                session = self._sessions[broker.broker_id] = Session(now_ms, presumed=True)
                session.shutdown_offset = offset if broker.in_controlled_shutdown else None

    def update(self, cluster: ClusterImage, changed: Iterable[int], offset: int, now_ms: float) -> None:
        """Follow the changed registrations of the brokers `changed`; `offset` is that of the change."""
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
        """Record a heartbeat, or a registration, with `metadata_offset` NOT_KNOWN."""
        if session := self._sessions.get(broker_id):
            session.last_contact_ms = now_ms
            session.presumed = False
            session.suspect_since_ms = None
            session.metadata_offset = metadata_offset

    def connection_lost(self, broker_id: int, now_ms: float) -> None:
        """The connection over which the broker sent heartbeats broke: it becomes a suspect."""
        session = self._sessions.get(broker_id)
        if session is not None and session.suspect_since_ms is None:
            session.suspect_since_ms = now_ms

    def is_suspect(self, broker_id: int) -> bool:
        session = self._sessions.get(broker_id)
        return session is not None and session.suspect_since_ms is not None

    def expire_suspect(self, broker_id: int, now_ms: float) -> None:
        """The process of a suspect is gone: its session expires at once."""
        session = self._sessions.get(broker_id)
        if session is not None and session.suspect_since_ms is not None:
            session.suspect_since_ms = now_ms - self._grace_ms

    def connection_reset(self, broker_id: int, now_ms: float) -> None:
        """Another connection with the broker's process broke, or was refused.

        Ignored for a broker that has an intact connection for heartbeats.
        """
        session = self._sessions.get(broker_id)
        if session is not None and session.presumed:
            self.connection_lost(broker_id, now_ms)

    def is_certainly_alive(self, broker_id: int, now_ms: float) -> bool:
        """True if the broker's process was certainly alive within the session timeout."""
        session = self._sessions.get(broker_id)
        if session is None or session.presumed or session.suspect_since_ms is not None:
            return False
        return session.last_contact_ms + self._timeout_ms > now_ms

    def expired(self, now_ms: float) -> list[int]:
        """The brokers whose sessions have expired, in the order of expiration."""
        late = [(self._ends_ms(session), broker_id) for broker_id, session in self._sessions.items()]
        return [broker_id for ends_ms, broker_id in sorted(late) if ends_ms <= now_ms]

    def end_cause(self, broker_id: int, now_ms: float) -> str:
        """Why the session of an expired broker ended."""
        session = self._sessions[broker_id]
        if session.last_contact_ms + self._timeout_ms <= now_ms:
            return f"no heartbeat of broker {broker_id} for {now_ms - session.last_contact_ms:.0f} ms"
        return f"the connection of broker {broker_id} broke, and it did not come back"

    def next_end_ms(self) -> float | None:
        """The time at which the next session expires, without further heartbeats; None without sessions."""
        return min(map(self._ends_ms, self._sessions.values()), default=None)

    def extend_expired(self, now_ms: float) -> None:
        """Extend expired sessions by the grace time, after the controller's own process did not run for a while.

        Heartbeats that were sent meanwhile may be unread in its sockets.
        """
        for session in self._sessions.values():
            if self._ends_ms(session) <= now_ms:
                session.reprieved_until_ms = now_ms + self._grace_ms

    def shutdown_offset(self, broker_id: int) -> int | None:
        session = self._sessions.get(broker_id)
        return None if session is None else session.shutdown_offset

    def metadata_offset(self, broker_id: int) -> int:
        """The last offset that the broker has replayed, or NOT_KNOWN."""
        session = self._sessions.get(broker_id)
        return NOT_KNOWN if session is None else session.metadata_offset

    def _ends_ms(self, session: Session) -> float:
        ends_ms = session.last_contact_ms + self._timeout_ms
        if session.suspect_since_ms is not None:
            ends_ms = min(ends_ms, session.suspect_since_ms + self._grace_ms)
        return max(ends_ms, session.reprieved_until_ms)
