"""Parses the syntax of RE2 (https://github.com/google/re2/wiki/Syntax), as far as it matters for names.

Names are ASCII, so other characters in a class make no difference. Not supported, and refused: classes by Unicode
property (\\pN), \\C, and everything that RE2 does not support either, such as back references and lookaround.
"""

from enum import Enum
from typing import Final, TypeAlias

from kraft import lazy_attrs

# Bit n stands for the character n.
CharSet: TypeAlias = int
ALL: Final[CharSet] = (1 << 128) - 1
REPEATS_MAX: Final = 1000  # RE2's own bound
_DEPTH_MAX: Final = 100
# "{", two numbers of up to ten digits, a comma, "}". A longer text in braces is not a repetition; int() stays cheap.
_BOUNDS_SIZE_MAX: Final = 24


class RegexError(ValueError):
    """The text is not a regular expression, or uses unsupported syntax."""


class Condition(Enum):
    """The condition of an assertion on its position."""

    BEGIN = "begin"
    END = "end"
    WORD_BOUNDARY = "word boundary"
    NOT_WORD_BOUNDARY = "no word boundary"


@lazy_attrs.frozen
class Chars:
    of: CharSet


@lazy_attrs.frozen
class Assertion:
    condition: Condition


@lazy_attrs.frozen
class Sequence:
    nodes: "tuple[Node, ...]"


@lazy_attrs.frozen
class Choice:
    nodes: "tuple[Node, ...]"


@lazy_attrs.frozen
class Repeat:
    """`most` is None if the repetition has no upper bound."""

    node: "Node"
    least: int
    most: int | None


Node: TypeAlias = Chars | Assertion | Sequence | Choice | Repeat


def char_set(chars: str) -> CharSet:
    return sum(1 << ord(char) for char in dict.fromkeys(chars) if ord(char) < 128)


def _range(first: str, last: str) -> CharSet:
    return sum(1 << code for code in range(ord(first), min(ord(last), 127) + 1))


_DIGITS: Final = _range("0", "9")
_LOWER: Final = _range("a", "z")
_UPPER: Final = _range("A", "Z")
WORD: Final = _DIGITS | _LOWER | _UPPER | char_set("_")
_SPACE: Final = char_set("\t\n\f\r ")
_CLASSES: Final = {"d": _DIGITS, "w": WORD, "s": _SPACE, "D": ALL & ~_DIGITS, "W": ALL & ~WORD, "S": ALL & ~_SPACE}
_POSIX: Final = {
    "alnum": _DIGITS | _LOWER | _UPPER,
    "alpha": _LOWER | _UPPER,
    "ascii": ALL,
    "blank": char_set("\t "),
    "cntrl": _range("\x00", "\x1f") | char_set("\x7f"),
    "digit": _DIGITS,
    "graph": _range("!", "~"),
    "lower": _LOWER,
    "print": _range(" ", "~"),
    "punct": _range("!", "/") | _range(":", "@") | _range("[", "`") | _range("{", "~"),
    "space": _SPACE | char_set("\v"),
    "upper": _UPPER,
    "word": WORD,
    "xdigit": _DIGITS | _range("a", "f") | _range("A", "F"),
}
_NOT_ASCII: Final = "\x80"
_LITERALS: Final = tuple(Chars(1 << code) for code in range(128))
_CONTROL: Final = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_CONDITIONS: Final = {
    "A": Condition.BEGIN,
    "z": Condition.END,
    "b": Condition.WORD_BOUNDARY,
    "B": Condition.NOT_WORD_BOUNDARY,
}


@lazy_attrs.define
class Parser:
    """A recursive-descent parser at position `at`. `folds` and `dot_takes_newline` are the current flags i and s."""

    text: str
    at: int = 0
    folds: bool = False
    dot_takes_newline: bool = False
    depth: int = 0

    def parse(self) -> Node:
        """Parse the whole expression. Raises RegexError."""
        node = self._choice()
        if self.at < len(self.text):
            raise RegexError(f"unexpected ')' at {self.at}")
        return node

    def _choice(self) -> Node:
        choices = [self._sequence()]
        while self._take("|"):
            choices.append(self._sequence())
        return choices[0] if len(choices) == 1 else Choice(tuple(choices))

    def _sequence(self) -> Node:
        nodes: list[Node] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            nodes += self._repeated()
        return nodes[0] if len(nodes) == 1 else Sequence(tuple(nodes))

    def _repeated(self) -> list[Node]:
        """An item with its repetition. A quoted text (\\Q...\\E) is several items, a group of flags is none."""
        if self.text.startswith("\\Q", self.at):
            return self._quoted()
        item = self._item()
        if item is None:
            return []
        bounds = self._bounds()
        if bounds is None:
            return [item]
        self._take("?")  # greedy or not makes no difference to whether the text matches
        if self.at < len(self.text) and self.text[self.at] in "*+?":
            raise RegexError(f"nothing to repeat at {self.at}")
        return [Repeat(item, *bounds)]

    def _bounds(self) -> tuple[int, int | None] | None:
        if self.at == len(self.text) or self.text[self.at] not in "*+?{":
            return None
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return bounds
        end = self.text.find("}", self.at, self.at + _BOUNDS_SIZE_MAX)
        if end < 0:
            return None
        least, comma, most = self.text[self.at + 1 : end].partition(",")
        if not least.isascii() or not least.isdigit() or (most and not (most.isascii() and most.isdigit())):
            return None  # the brace is a literal
        self.at = end + 1
        first, last = int(least), int(most or least)
        if max(first, last) > REPEATS_MAX or last < first:
            raise RegexError(f"invalid repetition {{{least}{comma}{most}}}")
        return first, None if comma and not most else last

    def _item(self) -> Node | None:
        char = self._next()
        if char == "(":
            return self._group()
        if char == "[":
            return Chars(self._folded(self._class()))
        if char == ".":
            return Chars(ALL if self.dot_takes_newline else ALL & ~char_set("\n"))
        if char == "^":
            return Assertion(Condition.BEGIN)
        if char == "$":
            return Assertion(Condition.END)
        if char == "\\":
            return self._escape()
        if char in "*+?":
            raise RegexError(f"nothing to repeat at {self.at - 1}")
        return self._literal(char)

    def _group(self) -> Node | None:
        """Parse a group; returns None if it only sets flags for the rest of the enclosing group."""
        flags = self.folds, self.dot_takes_newline
        if self._take("?") and not self._group_head():
            return None
        self.depth += 1
        if self.depth > _DEPTH_MAX:
            raise RegexError("groups are nested too deeply")
        node = self._choice()
        self.depth -= 1
        if not self._take(")"):
            raise RegexError("a group is not closed")
        self.folds, self.dot_takes_newline = flags
        return node

    def _group_head(self) -> bool:
        """Parse the name or flags after "(?"; returns whether a group follows."""
        for head in ("P<", "<"):
            if self._take(head):
                name, end, rest = self.text[self.at :].partition(">")
                if not end or not name.isidentifier():
                    raise RegexError(f"a group has no name at {self.at}")
                self.at = len(self.text) - len(rest)
                return True
        is_on = True
        while (char := self._next()) not in ":)":
            if char == "i":
                self.folds = is_on
            elif char == "s":
                self.dot_takes_newline = is_on
            elif char == "-" and is_on:
                is_on = False
            elif char not in "mU":  # multi-line and ungreedy make no difference here
                raise RegexError(f"there is no flag {char!r}")
        return char == ":"

    def _escape(self) -> Node:
        char = self._next()
        if char in _CLASSES:
            return Chars(_CLASSES[char])
        if char in _CONDITIONS:
            return Assertion(_CONDITIONS[char])
        return self._literal(self._escaped(char))

    def _escaped(self, char: str) -> str:
        """The character that an escape stands for, inside or outside of a class."""
        if char in _CONTROL:
            return _CONTROL[char]
        if char == "x":
            return self._hexadecimal()
        if char in "01234567":
            start = self.at - 1
            while self.at < min(start + 3, len(self.text)) and self.text[self.at] in "01234567":
                self.at += 1
            if char != "0" and self.at == start + 1:
                raise RegexError("there are no back references")
            return chr(int(self.text[start : self.at], 8))
        if char.isascii() and not char.isalnum():
            return char
        raise RegexError(f"there is no escape \\{char}")

    def _hexadecimal(self) -> str:
        if self._take("{"):
            digits, end, _ = self.text[self.at :].partition("}")
            self.at += len(digits) + len(end)
        else:
            digits, end = self.text[self.at : self.at + 2], "}"
            self.at += 2
        is_number = 0 < len(digits) <= 6 and all(digit in "0123456789abcdefABCDEF" for digit in digits)
        if not end or not is_number or int(digits, 16) > 0x10FFFF:
            raise RegexError("a character's hexadecimal number is invalid")
        return chr(int(digits, 16))

    def _quoted(self) -> list[Node]:
        text, end, _ = self.text[self.at + 2 :].partition("\\E")
        self.at += 2 + len(text) + len(end)
        return [self._literal(char) for char in text]

    def _literal(self, char: str) -> Node:
        if not self.folds and char < _NOT_ASCII:
            return _LITERALS[ord(char)]
        return Chars(self._folded(char_set(char)))

    def _folded(self, chars: CharSet) -> CharSet:
        if not self.folds:
            return chars
        distance = ord("a") - ord("A")
        return chars | (chars & _UPPER) << distance | (chars & _LOWER) >> distance

    # Classes

    def _class(self) -> CharSet:
        """Parse a character class after its "["."""
        is_negated = self._take("^")
        chars, is_first = 0, True
        while is_first or not self._take("]"):
            is_first = False
            chars |= self._class_item()
        return ALL & ~self._folded(chars) if is_negated else chars

    def _class_item(self) -> CharSet:
        if self.text.startswith("[:", self.at) and (end := self.text.find(":]", self.at)) >= 0:
            name, self.at = self.text[self.at + 2 : end], end + 2
            chars = _POSIX.get(name.removeprefix("^"))
            if chars is None:
                raise RegexError(f"there is no class [:{name}:]")
            return ALL & ~chars if name.startswith("^") else chars
        first = self._next()
        if first == "\\":
            first = self._next()
            if first in _CLASSES:
                return _CLASSES[first]
            first = self._escaped(first)
        if not self.text.startswith("-", self.at) or self.text.startswith("-]", self.at):
            return char_set(first)
        self.at += 1
        last = self._next()
        if last == "\\":
            last = self._escaped(self._next())
        if last < first:
            raise RegexError(f"there is no range {first}-{last}")
        return _range(first, last)

    # Characters

    def _next(self) -> str:
        if self.at >= len(self.text):
            raise RegexError("the expression ends too early")
        self.at += 1
        return self.text[self.at - 1]

    def _take(self, text: str) -> bool:
        if self.text.startswith(text, self.at):
            self.at += len(text)
            return True
        return False
