"""The table of the words of a fault, whose meaning `jepsen.testing.faults.fault_of` has."""

from collections.abc import Mapping
from typing import Final

from broker.wire.api import APIS
from broker.wire.errors import ErrorCode
from jepsen.testing.faults.fault import CHOICES, DELAY_MS_MAX, INTEGERS, ActionKind
from jepsen.testing.word_types import Word

_API: Final = {"type": "string", "enum": sorted(api.name for api in APIS.values())}
_ERRORS: Final = tuple(name for name, code in ErrorCode.__members__.items() if code is not ErrorCode.NONE)
_ANY_API: Final = {"oneOf": [_API, {"type": "array", "items": _API, "minItems": 1}]}


def _integer(name: str, meaning: str) -> Word:
    return Word.integer(meaning, INTEGERS[name])


def _choice(kind: ActionKind, meaning: str) -> Word:
    return Word.text(meaning, map(str, CHOICES[kind]))


SELECTING_WORDS: Final[Mapping[str, Word]] = {
    "api": Word.value("Requests of this API, by Kafka's name, or of each API of a list.", _ANY_API),
    "topic": Word.text("Requests that name this topic, and only this part of them."),
    "partition": _integer("partition", "Requests that name this partition of the topic, and only this part of them."),
    "group": Word.text("Requests of this group."),
    "transactional_id": Word.text("Requests of this transactional id."),
    "client_id": Word.text("Requests with this client id; `*` at its end makes it a prefix."),
    "node": _integer("node", "Requests to this node."),
}
ACTION_WORDS: Final[Mapping[str, Word]] = {
    ActionKind.ERROR.value: Word.text("Answer with this error, by Kafka's name, and do not carry it out.", _ERRORS),
    ActionKind.DELAY.value: Word.integer("Carry the request out after so many milliseconds.", 1, DELAY_MS_MAX),
    ActionKind.HOLD.value: Word.true("Carry the request out once it is released, or the fault has ended."),
    ActionKind.DROP.value: _choice(ActionKind.DROP, "Do not carry it out; close the connection, or let it hang."),
    ActionKind.LOSE_ANSWER.value: Word.true("Carry it out, and close the connection in place of the answer."),
    ActionKind.THROTTLE.value: Word.integer("Answer with this throttle time.", 1, DELAY_MS_MAX),
    ActionKind.STALE.value: Word.true("Answer Metadata as of the begin of the fault."),
    ActionKind.DATA.value: _choice(ActionKind.DATA, "Answer Fetch without records, or with the last batch cut."),
}
FAULT_WORDS: Final[Mapping[str, Word]] = {
    **SELECTING_WORDS,
    "nth": _integer("nth", "It fires on this matching request only, counted by each node from 1."),
    "every": _integer("every", "It fires on each request whose number is a multiple of this one."),
    "times": _integer("times", "It fires at most so often."),
    "probability": Word.value("It fires with this probability.", {"type": "number", "minimum": 0, "maximum": 1}),
    "seed": Word.integer("Draws the requests on which it fires.", default=0),
    **ACTION_WORDS,
}
