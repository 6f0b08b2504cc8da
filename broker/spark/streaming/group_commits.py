"""Commits of a query's position to its group, so that tools that watch the lag of groups see the query."""

import logging
from collections.abc import Callable
from typing import Final

from broker.client import ClientError, KafkaError, SyncAdmin
from broker.spark.offsets import Offsets

_LOG: Final = logging.getLogger(__name__)
# A commit holds the query up for at most so long, and after a failure the next ones are left out for a while.
_TIMEOUT_MS: Final = 5_000
_PAUSE_S: Final = 30.0


class GroupCommits:
    """Commits the offsets of batches that are complete.

    The checkpoint says where a query goes on; the offsets of the group are for tools only. So a commit that fails is
    logged, and never fails the query.
    """

    def __init__(self, admin: SyncAdmin, group_id: str, now_s: Callable[[], float]) -> None:
        self._admin = admin
        self._group_id = group_id
        self._now_s = now_s
        self._committed: Offsets = {}
        self._paused_until_s = 0.0

    def commit(self, offsets: Offsets) -> None:
        """Commits what has changed since the last commit."""
        changed = {each: offset for each, offset in offsets.items() if self._committed.get(each) != offset}
        if not changed or self._now_s() < self._paused_until_s:
            return
        try:
            self._admin.alter_group_offsets(self._group_id, changed, timeout_ms=_TIMEOUT_MS).raise_first()
        except (ClientError, KafkaError, OSError) as error:
            self._paused_until_s = self._now_s() + _PAUSE_S
            _LOG.warning("The offsets of group %s are not committed: %s", self._group_id, error)
        else:
            self._committed = dict(offsets)
