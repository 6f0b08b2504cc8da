"""Replaces parts of Trio that took a noticeable share of a simulation's CPU time by equal ones that are faster.

All of them are on the way of every message, timeout or cancellation. Like `scheduling` and `event_loop`, this module
uses Trio's internals, whose version is pinned.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from types import TracebackType
from typing import Any

import trio
from trio import _highlevel_socket, _util
from trio._core import _run

_private_run: Any = _run
_private_socket: Any = _highlevel_socket
_private_util: Any = _util


@contextmanager
def fast_paths() -> Iterator[None]:
    """Use the replacements within the block, in all loops of the process."""
    scope_class, constructed = _private_run.CancelScope, _private_util.NoPublicConstructor
    changing_deadline = scope_class._might_change_registered_deadline
    translating_errors = _private_socket._translate_socket_errors_to_stream_errors
    scope_class._might_change_registered_deadline = _ChangingDeadline.of
    _private_socket._translate_socket_errors_to_stream_errors = _TranslatingErrors
    # Trio's exceptions are instances of a subclass of ABCMeta, whose check in Python runs whenever one is raised. None
    # of them has virtual subclasses, so the check of `type` has the same result.
    constructed.__instancecheck__ = type.__instancecheck__
    constructed.__subclasscheck__ = type.__subclasscheck__
    try:
        yield
    finally:
        del constructed.__instancecheck__, constructed.__subclasscheck__
        _private_socket._translate_socket_errors_to_stream_errors = translating_errors
        scope_class._might_change_registered_deadline = changing_deadline


class _ChangingDeadline:
    """The context of changes to a cancel scope, after which its deadline is registered. Trio's is a generator."""

    __slots__ = ("_scope",)

    def __init__(self, scope: Any) -> None:
        self._scope = scope

    @staticmethod
    def of(scope: Any) -> "_ChangingDeadline":
        return _ChangingDeadline(scope)

    def __enter__(self) -> None:
        pass

    @trio.lowlevel.enable_ki_protection
    def __exit__(self, *error: object) -> None:
        scope = self._scope
        before = scope._registered_deadline
        after = inf if scope._cancel_status is None or scope._cancel_called else scope._deadline
        if after != before:
            scope._registered_deadline = after
            deadlines = _private_run.GLOBAL_RUN_CONTEXT.runner.deadlines
            if before != inf:
                deadlines.remove(before, scope)
            if after != inf:
                deadlines.add(after, scope)


class _TranslatingErrors:
    """The context of a socket's operation within a stream, whose errors become those of a stream."""

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not isinstance(error, OSError):
            return
        if error.errno in _private_socket._closed_stream_errnos:
            raise trio.ClosedResourceError("this socket was already closed") from None
        raise trio.BrokenResourceError(f"socket connection broken: {error}") from error
