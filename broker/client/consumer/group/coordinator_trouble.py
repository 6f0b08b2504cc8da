"""Why a group has no coordinator, told once in the log and by the errors of reads."""

import logging
from typing import Any, Final

from broker.client.error_explanations import EXPLANATIONS
from broker.printable import printable
from broker.wire.errors import ErrorCode, KafkaError

_log: Final = logging.getLogger(__name__)

# How long a group may be without a coordinator before that is told: while the brokers create the topic of the offsets,
# elect a leader or load a partition.
_TOLERATED_S: Final = 3.0
_NO_COORDINATOR: Final = frozenset(
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)


class CoordinatorTrouble:
    """See the module's docstring. A member has one. Times are those of one clock, in seconds."""

    def __init__(self, group_id: str) -> None:
        self._group = f"group {printable(group_id)}"
        self._failure: KafkaError | None = None
        self._since = 0.0
        self._is_told = False
        self._has_answered = False

    def note_response(self, response: Any, now: float) -> None:
        """Takes the response of a coordinator, which may not coordinate the group yet, or not any more."""
        if response.error_code in _NO_COORDINATOR:
            message = printable(getattr(response, "error_message", None) or "")
            self.note_failure(KafkaError(ErrorCode(response.error_code), message), now)
            return
        if self._is_told:
            _log.info("%s has a coordinator again", self._group)
        self._failure, self._is_told, self._has_answered = None, False, True

    def note_failure(self, error: KafkaError, now: float) -> None:
        """Takes the error of an attempt to find the coordinator."""
        if self._failure is None:
            self._since = now
        self._failure = error
        if not self._is_told and now - self._since >= _TOLERATED_S:
            self._is_told = True
            _log.warning("%s", self._text(error))

    def error_at_end(self, tolerated_ms: float, now: float) -> KafkaError | None:
        """The error of a read whose time is over. Once a coordinator has answered, `tolerated_ms` are tolerated."""
        return self.error(tolerated_ms if self._has_answered else min(_TOLERATED_S * 1000, tolerated_ms), now)

    def error(self, tolerated_ms: float, now: float) -> KafkaError | None:
        """The error of a read, if the group has had no coordinator for `tolerated_ms`."""
        if self._failure is None or now - self._since < tolerated_ms / 1000:
            return None
        return KafkaError(self._failure.code, self._text(self._failure))

    def _text(self, error: KafkaError) -> str:
        reason = error.message or EXPLANATIONS.get(error.code, error.code.name)
        return f"{self._group} has no coordinator, and so gets no partitions: {reason}"
