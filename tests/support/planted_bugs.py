"""Bugs that are planted into the product during a test: functions are replaced by wrong ones.

The bugs themselves are in `quorum_bugs`, `storage_bugs`, `replication_bugs` and `group_bugs`.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any, TypeAlias

import attrs
import trio


@attrs.frozen
class PatchedFunction:
    """`owner.function` is replaced by `wrong(right)`, which gets the right function and returns a wrong one.

    The owner of a function that is no method is its module. A property's function is its getter.
    """

    owner: type | ModuleType
    function: str
    wrong: Callable[[Any], Any]

    @contextmanager
    def planted(self) -> Iterator[None]:
        before = inspect.getattr_static(self.owner, self.function)
        is_property = isinstance(before, property)
        wrong = self.wrong(before.fget if is_property else before)
        setattr(self.owner, self.function, property(wrong) if is_property else wrong)
        try:
            yield
        finally:
            setattr(self.owner, self.function, before)


class PatchedFunctions:
    """Several functions that implement one rule together, so that replacing only one of them does not break
    the rule.
    """

    def __init__(self, *patched: PatchedFunction) -> None:
        self._patched = patched

    @contextmanager
    def planted(self) -> Iterator[None]:
        with ExitStack() as stack:
            for function in self._patched:
                stack.enter_context(function.planted())
            yield


Bug: TypeAlias = PatchedFunction | PatchedFunctions


def does_nothing(right: Any) -> Any:
    """A function that does nothing, in place of a synchronous or an asynchronous one."""

    async def wait(*args: Any, **kwargs: Any) -> None:
        await trio.lowlevel.checkpoint()

    return wait if inspect.iscoroutinefunction(right) else lambda *args, **kwargs: None


def always(value: object) -> Callable[[Any], Any]:
    """A function that returns `value`, whatever its arguments are."""
    return lambda right: lambda *args, **kwargs: value
