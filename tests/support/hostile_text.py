"""Names that would control a terminal or forge a line of output, and the check that a text does neither."""

from typing import Final

# Line ends, a terminal's title, an erased screen, C1 controls, bidirectional and invisible characters, separators.
_CONTROLS: Final = "\n\r\x1b]0;x\x07\x1b[2J\x9b2J\x7f\x85\u202e\u2066\u200b\u2028\u2029"
# A line of its own that looks like one of a node's log.
FORGED: Final = "kraft: forged"
# A name that a client may have. As an argument of a command it is possible, too: it has no NUL and no surrogate.
HOSTILE_NAME: Final = f"x{_CONTROLS}\n{FORGED}\n\t{FORGED}\r{FORGED}"
# The worst text in a field of an event.
HOSTILE_TEXT: Final = f"{HOSTILE_NAME}\0\udc80{'y' * 40_000}"
HOSTILE_BYTES: Final = HOSTILE_NAME.encode() + b"\0\xff\x9b"


def assert_harmless(output: str) -> None:
    """Checks that lines and tabs are the only layout of `output`, and that no line is forged."""
    for line in output.split("\n"):
        assert line.replace("\t", "").isprintable(), f"a terminal obeys {line!r}"
        assert not line.lstrip("\t").startswith(FORGED), f"{line!r} is forged"
