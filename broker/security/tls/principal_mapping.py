"""`ssl.principal.mapping.rules`: which short name a certificate's distinguished name has (KIP-371)."""

import re
from collections.abc import Sequence
from typing import Final

from kraft import lazy_attrs
from metadata.regex.matching import Regex, RegexError, compile_regex

# As Kafka reads them. A rule is DEFAULT, or RULE:pattern/replacement/ with an L or a U for lower or upper case.
_RULE: Final = r"(DEFAULT)|RULE:((\\.|[^\\/])*)/((\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(,\s*|$)")
_PARSER: Final = re.compile(_RULE)
# A group of Java with a name; Python writes it (?P<name>...).
_NAMED_GROUP: Final = re.compile(r"\(\?<(?=[A-Za-z])")

# Characters beyond ASCII, for which the linear matcher has no sets, and what stands for them. As in Java, `\w` matches
# none of them.
_BEYOND_ASCII: Final = re.compile(r"[^\x00-\x7f]")
_OTHER_CHARACTER: Final = "\x7f"


class InvalidRule(ValueError):
    """A rule that cannot be read. The message is Kafka's."""


class NoMatchingRule(ValueError):
    """No rule applies to a distinguished name."""


@lazy_attrs.frozen
class _Rule:
    """`pattern` is None for DEFAULT. `case` is "L", "U" or empty.

    `linear` is the pattern for a matcher without backtracking, None if that does not know its syntax. Certificates
    choose names: on one of 900 characters, the rule of Kafka's documentation backtracks for 30 s before it fails.
    """

    text: str
    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    case: str = ""
    linear: Regex | None = None

    def apply(self, name: str) -> str | None:
        pattern = self.pattern
        if pattern is None:
            return name
        if self.linear is not None and not self.linear.matches(_BEYOND_ASCII.sub(_OTHER_CHARACTER, name)):
            return None
        if pattern.fullmatch(name) is None:
            return None
        short = pattern.sub(lambda match: _expand(self.replacement, match), name)
        return short.lower() if self.case == "L" else short.upper() if self.case == "U" else short


class PrincipalMapping:
    """The rules, of which the first that matches the whole name counts. Raises InvalidRule."""

    def __init__(self, rules: str) -> None:
        self._rules: Sequence[_Rule] = [rule for text in _split(rules) if (rule := _parse(text)) is not None]

    def short_name(self, distinguished_name: str) -> str:
        """The name of the principal. Raises NoMatchingRule."""
        for rule in self._rules:
            name = rule.apply(distinguished_name)
            if name is not None:
                return name
        rules = ", ".join(rule.text.removesuffix("/") for rule in self._rules)
        raise NoMatchingRule(f"No rules apply to {distinguished_name}, rules [{rules}]")


def _split(rules: str) -> list[str]:
    return [match[1] for match in _SPLITTER.finditer(rules.strip())]


def _parse(text: str) -> _Rule | None:
    """The rule; None for an empty one, which is ignored."""
    match = _PARSER.match(text)
    if match is None:
        raise InvalidRule(f"Invalid rule: {text}")
    if match.end() != len(text):
        raise InvalidRule(f"Invalid rule: `{text}`, unmatched substring: `{text[match.end() :]}`")
    if match[1] is not None:
        return _Rule(text)
    if match[2] is None:
        return None
    expression = _NAMED_GROUP.sub("(?P<", match[2])
    try:
        pattern = re.compile(expression)
    except re.error as error:
        raise InvalidRule(f"Invalid rule: `{text}`: {error}") from error
    return _Rule(text, pattern, match[4], match[6], _linear(expression))


def _linear(expression: str) -> Regex | None:
    """The matcher without backtracking, for expressions in ASCII and without what only backtracking can match."""
    try:
        return compile_regex(expression) if expression.isascii() else None
    except RegexError:
        return None


def _expand(replacement: str, match: re.Match[str]) -> str:
    """The replacement with its references to groups, as Java writes them; one to a group that is missing stays."""
    pieces: list[str] = []
    position = 0
    while position < len(replacement):
        char = replacement[position]
        position += 1
        if char == "\\" and position < len(replacement):
            pieces.append(replacement[position])
            position += 1
        elif char == "$" and (digits := _group(replacement, position, match.re.groups)):
            pieces.append(match[int(digits)] or "")
            position += len(digits)
        else:
            pieces.append(char)
    return "".join(pieces)


def _group(text: str, position: int, groups: int) -> str:
    """The number of the group that is named at `position`: as many digits as there is a group for; empty for none."""
    number = ""
    for digit in text[position:]:
        if not (digit.isascii() and digit.isdecimal()) or int(number + digit) > groups:
            break
        number += digit
    return number
