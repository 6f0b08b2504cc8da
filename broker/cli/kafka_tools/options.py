"""Options of Kafka's tools, parsed as JOpt Simple does, the library that these tools use.

An option takes its argument as `--topic orders` or `--topic=orders`, and one dash is as good as two. An option that
needs an argument takes the next word whatever it begins with. Options are not abbreviated: Kafka's tools turned that
off.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from typing import Any, Final

import attrs

from broker.cli.printing import print_text
from broker.printable import printable

_WIDTH: Final = 80
_NUMBER: Final = re.compile(r"[+-]?[0-9]+")
_SHORT_MAX: Final = 2**15 - 1
_INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1


class UsageFailure(Exception):
    """The command line is wrong. `help_text` is printed after the message; exit code 1, as Kafka's tools have it.

    The message is one line, rendered: it may have an argument in it.
    """

    def __init__(self, message: str, help_text: str = "") -> None:
        super().__init__(printable(message))
        self.help_text = help_text


class ToolExit(Exception):
    """A tool is done, with this exit code and last lines on standard error, if there are any.

    Each line is rendered: it may have an argument or a name in it.
    """

    def __init__(self, exit_code: int, *lines: str) -> None:
        self.exit_code = exit_code
        self.message = "\n".join(map(printable, lines))
        super().__init__(exit_code, self.message)


def integer(text: str) -> int:
    """A number of 32 bits. Raises ValueError."""
    return _number(text, _INT_MAX)


def short(text: str) -> int:
    """A number of 16 bits. Raises ValueError."""
    return _number(text, _SHORT_MAX)


def long(text: str) -> int:
    """A number of 64 bits. Raises ValueError."""
    return _number(text, _LONG_MAX)


def _number(text: str, largest: int) -> int:
    if not _NUMBER.fullmatch(text) or not -largest - 1 <= int(text[:25]) <= largest:
        raise ValueError(text)
    return int(text)


@attrs.frozen
class Option:
    """An option. `argument` names its argument in the help; an option without one is a flag.

    `separator` splits the argument into several values.
    """

    names: tuple[str, ...]
    help: str
    argument: str | None = None
    read: Callable[[str], Any] = str
    default: Any = None
    separator: str | None = None
    is_argument_optional: bool = False

    def __str__(self) -> str:
        """Returns the option's name as in Kafka's messages."""
        return f"[{', '.join(self.names)}]"


def flag(names: str, help: str) -> Option:
    """An option without an argument. `names` are separated by `|`."""
    return Option(tuple(names.split("|")), help)


def option(names: str, argument: str, help: str, read: Callable[[str], Any] = str, **attributes: Any) -> Option:
    """An option with an argument. `names` are separated by `|`."""
    return Option(tuple(names.split("|")), help, argument, read, **attributes)


BOOTSTRAP_SERVER: Final = option("bootstrap-server", "host:port,...", "REQUIRED: the brokers to connect to.")
BOOTSTRAP_SERVER_OR_CONTROLLER: Final = (
    option("bootstrap-server", "host:port,...", "The brokers to connect to."),
    option("bootstrap-controller", "host:port,...", "The controllers to connect to, in place of brokers."),
)
COMMAND_CONFIG: Final = option("command-config", "file", "A properties file with configs of the client.")


class Options:
    """The options of a command line."""

    def __init__(self, parser: "OptionParser", found: Sequence[tuple[Option, Sequence[Any]]]) -> None:
        self._parser = parser
        self._found = found
        self._given: dict[Option, list[Any]] = {}
        for option, values in found:
            self._given.setdefault(option, []).extend(values)

    def __contains__(self, name: str) -> bool:
        return self._parser.option(name) in self._given

    def value(self, name: str) -> Any:
        """The option's value, or its default. Raises UsageFailure where it was given more than once."""
        option = self._parser.option(name)
        values = self._given.get(option, ())
        if len(values) > 1:
            raise UsageFailure(f"Found multiple arguments for option {option.names[0]}, but you asked for only one")
        return values[0] if values else option.default

    def values(self, name: str) -> Sequence[Any]:
        """All values of an option that may be repeated."""
        option = self._parser.option(name)
        return self._given.get(option) or ([] if option.default is None else [option.default])

    def in_order(self, *names: str) -> list[tuple[str, Any]]:
        """The names and values of some options, in the order of the command line; None for a flag."""
        wanted = {self._parser.option(name): name for name in names}
        return [
            (wanted[option], value) for option, values in self._found if option in wanted for value in values or [None]
        ]

    def failure(self, message: str) -> UsageFailure:
        """Returns the error that prints `message` and the tool's help."""
        return UsageFailure(message, self._parser.help_text())

    def require(self, *names: str) -> None:
        """Checks that all these options are given. Raises UsageFailure."""
        for name in names:
            if name not in self:
                raise self.failure(f'Missing required argument "{self._parser.option(name)}"')

    def require_one_of(self, *names: str) -> None:
        """Checks that exactly one of these options is given. Raises UsageFailure."""
        if sum(name in self for name in names) != 1:
            options = ", ".join(str(self._parser.option(name)) for name in names)
            raise self.failure(f"Exactly one of the following arguments is required: {options}")

    def exclude(self, name: str, *others: str) -> None:
        """Checks that `name` is not given with one of the others. Raises UsageFailure."""
        for other in others if name in self else ():
            if other in self:
                option, excluded = self._parser.option(name), self._parser.option(other)
                raise self.failure(f'Option "{option}" can\'t be used with option "{excluded}"')

    def require_with(self, action: str, *names: str) -> None:
        """Checks that these options are only given together with `action`. Raises UsageFailure."""
        unavailable = [name for name in names if name in self and action not in self]
        if unavailable:
            listed = ", ".join(sorted(unavailable))
            raise UsageFailure(f"Option(s) [{listed}] are unavailable given other options on the command line")

    def renamed(self, old: str, new: str, kind: str = "Option", *, names_new_first: bool = False) -> str:
        """The name under which an option was given that KIP-1147 renamed, with a warning for the old one.

        `kind` is the warning's first word. Raises UsageFailure where both names are given; Kafka's tools name them in
        different orders.
        """
        if old not in self:
            return new
        if new in self:
            first, second = (new, old) if names_new_first else (old, new)
            raise self.failure(f"Options --{first} and --{second} cannot be specified together.")
        print_text(f"{kind} --{old} is deprecated and will be removed in a future version. Use --{new} instead.")
        return old


class OptionParser:
    """The options of one tool."""

    def __init__(self, purpose: str, *options: Option) -> None:
        self._purpose = purpose
        self._options = (*options, flag("help", "Print this help."), flag("version", "Print the version."))
        self._by_name = {name: option for option in self._options for name in option.names}

    def option(self, name: str) -> Option:
        return self._by_name[name]

    def parse(self, arguments: Sequence[str]) -> Options:
        """Parses the arguments. Words that belong to no option are ignored, as by Kafka's tools.

        Raises UsageFailure, and ToolExit for --version.
        """
        found: list[tuple[Option, Sequence[Any]]] = []
        words = _Words(arguments)
        for word in words:
            if word == "--":
                break
            if word.startswith("-") and len(word) > 1:
                found.append(self._read(word, words))
        options = Options(self, found)
        if not arguments or "help" in options:
            raise UsageFailure(self._purpose, self.help_text())
        if "version" in options:
            print_text(version("kraft"))
            raise ToolExit(0)
        return options

    def help_text(self) -> str:
        """The table of options."""
        rows = [("Option", "Description"), ("------", "-----------")]
        for option in sorted(self._options, key=lambda each: each.names):
            names = ", ".join(f"--{name}" for name in option.names)
            argument = f" <{option.argument}>" if option.argument else ""
            default = "" if option.default is None else f" (default: {option.default})"
            rows.append((names + argument, option.help + default))
        width = min(max(len(names) for names, _ in rows), _WIDTH // 2)
        return "\n".join(line for names, text in rows for line in _columns(names, text, width))

    def _read(self, word: str, words: "_Words") -> tuple[Option, list[Any]]:
        """An option, and the values that it is given."""
        name, equals, argument = word.lstrip("-").partition("=")
        option = self._by_name.get(name)
        if option is None:
            raise UsageFailure(f"{name} is not a recognized option", self.help_text())
        if option.argument is None:
            if equals:
                raise UsageFailure(f"Option {name} does not allow an argument", self.help_text())
            return option, []
        if not argument:
            following = words.take(is_optional=option.is_argument_optional)
            if following is None:
                if option.is_argument_optional:
                    return option, []
                raise UsageFailure(f"Option {name} requires an argument", self.help_text())
            argument = following
        parts = [argument] if option.separator is None else argument.split(option.separator)
        return option, [self._converted(option, part) for part in parts]

    def _converted(self, option: Option, text: str) -> Any:
        try:
            return option.read(text)
        except ValueError:
            message = f"Cannot parse argument '{text}' of option {option.names[0]}"
            raise UsageFailure(message, self.help_text()) from None


class _Words:
    """The words of a command line, in order."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = list(words)
        self._position = 0

    def __iter__(self) -> "_Words":
        return self

    def __next__(self) -> str:
        if self._position == len(self._words):
            raise StopIteration
        self._position += 1
        return self._words[self._position - 1]

    def take(self, *, is_optional: bool) -> str | None:
        """The next word as an argument; None where there is none, or an option follows an optional argument."""
        following = self._words[self._position : self._position + 1]
        if not following or (is_optional and following[0].startswith("-")):
            return None
        return next(self)


def _columns(names: str, text: str, width: int) -> Iterator[str]:
    """One row of the help, whose text is wrapped."""
    lines = [""]
    for part in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(part) > _WIDTH - width - 2:
            lines.append("")
        lines[-1] = f"{lines[-1]} {part}".lstrip()
    if len(names) > width:
        yield names
        names = ""
    for number, line in enumerate(lines):
        yield f"{names if number == 0 else '':<{width}}  {line}".rstrip()
