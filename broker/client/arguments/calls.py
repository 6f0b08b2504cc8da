"""Public calls that check their arguments, and what they do with what a check returns."""

from collections.abc import Callable, Collection, Mapping
from functools import cache, wraps
from inspect import Parameter, isasyncgenfunction, iscoroutinefunction, isfunction, signature
from typing import Any, Final, TypeVar, get_type_hints

from broker.client.arguments.annotations import check_of
from broker.client.arguments.check import Check, WrongArgument

C = TypeVar("C", bound=type)

_CHECK: Final = "check_arguments"


class Arguments:
    """The checks of one function's parameters. They are made at the first call: that takes a millisecond."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        # The constructor is called by the name of its class.
        self._name = function.__qualname__.split(".")[-2] if function.__name__ == "__init__" else function.__name__

    def read(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments without `self`, as the function is to get them. Raises TypeError and WrongValue.

        Arguments that the function does not have are left for Python to refuse.
        """
        by_position, by_name = _checks(self._function)
        read, named = list(args), dict(kwargs)
        name = ""
        try:
            for number, (name, check) in enumerate(by_position[: len(args)]):  # noqa: B007 - it names what is wrong
                read[number] = check.read(args[number])
            for name in kwargs:
                if name in by_name:
                    named[name] = by_name[name].read(kwargs[name])
        except WrongArgument as wrong:
            raise wrong.error(f"{self._name}(): {name}") from None
        return read, named


@cache
def _checks(function: Callable[..., Any]) -> tuple[list[tuple[str, Check]], dict[str, Check]]:
    """The checks of the parameters that are given by position, and of all by name; keyword settings have none."""
    hints = get_type_hints(function, include_extras=True)
    parameters = [each for each in list(signature(function).parameters.values())[1:] if each.name in hints]
    checks = {each.name: check_of(hints[each.name]) for each in parameters if each.kind is not Parameter.VAR_KEYWORD}
    positional = [each.name for each in parameters if each.kind is Parameter.POSITIONAL_OR_KEYWORD]
    return [(name, checks[name]) for name in positional], checks


def checks_arguments(*, but_not: Collection[str] = ()) -> Callable[[C], C]:
    """Has the public methods of a class check their arguments. Those in `but_not` do it themselves, and faster."""

    def decorate(cls: C) -> C:
        for name, method in list(vars(cls).items()):
            is_public = name == "__init__" or not name.startswith("_")
            if isfunction(method) and is_public and name not in but_not and not hasattr(method, _CHECK):
                setattr(cls, name, checked(method))
        return cls

    return decorate


def checked(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method with its arguments checked, or the method itself if it has none."""
    if len(signature(method).parameters) < 2 or isasyncgenfunction(method):
        return method
    arguments = Arguments(method)

    if iscoroutinefunction(method):

        @wraps(method)
        async def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
            args, kwargs = arguments.read(args, kwargs)  # type: ignore[assignment]
            return await method(self, *args, **kwargs)

    else:

        @wraps(method)
        def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
            args, kwargs = arguments.read(args, kwargs)  # type: ignore[assignment]
            return method(self, *args, **kwargs)

    setattr(call, _CHECK, arguments)
    return call


def read_arguments(
    method: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Checks arguments as a checked method does. Raises TypeError and WrongValue."""
    arguments: Arguments | None = getattr(method, _CHECK, None)
    return (list(args), dict(kwargs)) if arguments is None else arguments.read(args, kwargs)
