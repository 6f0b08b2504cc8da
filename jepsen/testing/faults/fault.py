"""A fault in words: which requests it concerns, on which of them it fires, and the action.

    fault_of({"api": "Produce", "topic": "orders", "error": "NOT_LEADER_OR_FOLLOWER", "times": 1})

The words are the same in Python and in JSON. Words that cannot mean anything are refused when the fault is made.
"""

from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from random import Random
from typing import Any, Final

import attrs

from broker.wire.api import APIS, Api
from broker.wire.errors import ErrorCode
from jepsen.testing.faults.shapes import (
    GROUP,
    PARTITION,
    TOPIC,
    TRANSACTION,
    WHOLE_RESPONSE_ERRORS,
    Subject,
    api_named,
    element_class,
    error_field,
    kinds_of,
    shape_of,
)
from jepsen.testing.nearest_name import suggestion

# A held or delayed request takes an entry in a connection, and its client gives up long before.
DELAY_MS_MAX: Final = 24 * 3600 * 1000
# The client id of the test server, which creates topics and reads records for tests.
TEST_SERVER: Final = "kraft-test-server"
# The beginnings of client ids of the nodes, which a number follows, and of the test server.
_OF_THE_CLUSTER: Final = ("broker-", TEST_SERVER)


class FaultRefused(ValueError):
    """The words of a fault cannot mean anything; the message names the word and the reason."""


class ActionKind(StrEnum):
    """The actions, by the word that chooses each."""

    ERROR = "error"
    """Answer with an error code; a part that gets the error is not carried out."""
    DELAY = "delay_ms"
    """Carry the request out after this time."""
    HOLD = "hold"
    """Carry the request out once it is released."""
    DROP = "drop"
    """Do not carry the request out, and do not answer: the connection "hangs", or is closed with "close"."""
    LOSE_ANSWER = "lose_answer"
    """Carry the request out, and close the connection in place of the answer."""
    THROTTLE = "throttle_ms"
    """Answer with this throttle time, and mute the connection for it (KIP-219)."""
    STALE = "stale"
    """Answer Metadata as of the fault's begin, as a broker does that lags."""
    DATA = "data"
    """Answer Fetch with "empty" records though there are some, or with the last batch "torn" in the middle."""


HANG: Final = "hang"
CLOSE: Final = "close"
EMPTY: Final = "empty"
TORN: Final = "torn"
CHOICES: Final[Mapping[str, tuple[object, ...]]] = {
    ActionKind.HOLD: (True,),
    ActionKind.DROP: (HANG, CLOSE),
    ActionKind.LOSE_ANSWER: (True,),
    ActionKind.STALE: (True,),
    ActionKind.DATA: (EMPTY, TORN),
}
# The actions that change an answer, and so need to know the API.
_OF_ONE_API: Final[Mapping[str, str]] = {ActionKind.STALE: "Metadata", ActionKind.DATA: "Fetch"}


@attrs.frozen
class RequestFacts:
    """The facts about a decoded request that faults match. `node` is the node that got it."""

    api: Api
    version: int
    client_id: str
    address: str
    node: int
    subjects: tuple[Subject, ...]

    @property
    def is_of_the_cluster(self) -> bool:
        """True for requests that nodes send to each other, and for those of the test server."""
        return self.client_id.startswith(_OF_THE_CLUSTER)


@attrs.frozen
class Selection:
    """The requests that a fault concerns; None concerns all. A `client_id` that ends with `*` is a prefix.

    The requests of the nodes to each other, and of the test server, are concerned only if `client_id` names them.
    """

    apis: frozenset[str] | None = None
    topic: str | None = None
    partition: int | None = None
    group: str | None = None
    transactional_id: str | None = None
    client_id: str | None = None
    node: int | None = None

    def matches(self, facts: RequestFacts) -> bool:
        if self.apis is not None and facts.api.name not in self.apis:
            return False
        if self.node is not None and facts.node != self.node:
            return False
        return self.matches_client(facts) and any(map(self.matches_subject, facts.subjects))

    def matches_subject(self, subject: Subject) -> bool:
        """True if an element of a request is concerned. One that names no partition is about all of them."""
        return (
            (self.topic is None or subject.topic == self.topic)
            and (self.partition is None or subject.partition in (None, self.partition))
            and (self.group is None or subject.group == self.group)
            and (self.transactional_id is None or subject.transactional_id == self.transactional_id)
        )

    def matches_client(self, facts: RequestFacts) -> bool:
        if self.client_id is None:
            return not facts.is_of_the_cluster
        if self.client_id.endswith("*"):
            return facts.client_id.startswith(self.client_id[:-1])
        return facts.client_id == self.client_id


@attrs.frozen
class Occurrence:
    """On which of the matching requests the fault fires: the `nth`, `every` so many, with a `probability`, in all at
    most `times`.
    """

    nth: int | None = None
    every: int | None = None
    times: int | None = None
    probability: float | None = None
    seed: int = 0


class OccurrenceCounter:
    """Counts matching requests, and decides on which the fault fires."""

    def __init__(self, occurrence: Occurrence) -> None:
        self._occurrence = occurrence
        self._random = Random(occurrence.seed)
        self._matched = self._fired = 0

    def fires(self) -> bool:
        """Count one more matching request. True if the fault fires on it."""
        occurrence = self._occurrence
        self._matched += 1
        draw = self._random.random() if occurrence.probability is not None else 0.0
        fires = (
            (occurrence.nth is None or self._matched == occurrence.nth)
            and (occurrence.every is None or self._matched % occurrence.every == 0)
            and (occurrence.probability is None or draw < occurrence.probability)
            and not self.is_used_up
        )
        self._fired += fires
        return fires

    @property
    def is_used_up(self) -> bool:
        """True if the fault does not fire again."""
        occurrence = self._occurrence
        return (occurrence.times is not None and self._fired >= occurrence.times) or (
            occurrence.nth is not None and self._matched > occurrence.nth
        )


@attrs.frozen
class Fault:
    """`value` is that of the action's word: an error code, milliseconds, or a choice."""

    selection: Selection
    occurrence: Occurrence
    kind: ActionKind
    value: Any

    @property
    def changes_fetches(self) -> bool:
        """True if the fault may concern single partitions of a Fetch request, all of which it then has to see."""
        return self.selection.apis is None or "Fetch" in self.selection.apis


INTEGERS: Final[Mapping[str, int]] = {"partition": 0, "node": 0, "nth": 1, "every": 1, "times": 1}
_TEXTS: Final = ("topic", "group", "transactional_id", "client_id")
_SELECTING: Final = (*_TEXTS, "partition", "node")
_OCCURRENCES: Final = ("nth", "every", "times", "probability", "seed")
FAULT_WORD_NAMES: Final = ("api", *_TEXTS, *INTEGERS, "probability", "seed", *ActionKind)


def fault_of(words: Mapping[str, Any]) -> Fault:
    """The fault in these words. Raises FaultRefused."""
    words = {word: value for word, value in words.items() if value is not None}
    for word, value in words.items():
        _check_value(word, value)
    apis = _apis(words.get("api"))
    kinds = [kind for kind in ActionKind if kind in words]
    if len(kinds) != 1:
        chosen = ", ".join(kinds) or "none"
        raise FaultRefused(f"a fault has one action of {', '.join(ActionKind)}; chosen: {chosen}")
    selection = _selection(words, apis)
    kind = kinds[0]
    value = _error_code(words[kind]) if kind is ActionKind.ERROR else words[kind]
    fault = Fault(selection, Occurrence(**{word: words[word] for word in _OCCURRENCES if word in words}), kind, value)
    _check_action(fault, apis)
    return fault


def selection_of(words: Mapping[str, Any]) -> Selection:
    """The requests that these words of a fault select. Raises FaultRefused."""
    words = {word: value for word, value in words.items() if value is not None}
    for word, value in words.items():
        if word not in ("api", *_SELECTING):
            raise FaultRefused(f"no request is selected by {word!r}")
        _check_value(word, value)
    return _selection(words, _apis(words.get("api")))


def _selection(words: Mapping[str, Any], apis: list[Api] | None) -> Selection:
    selection = Selection(
        apis=None if apis is None else frozenset(api.name for api in apis),
        **{word: words[word] for word in _SELECTING if word in words},
    )
    _check_selection(selection, apis)
    return selection


def _check_value(word: str, value: Any) -> None:
    if word not in FAULT_WORD_NAMES:
        raise FaultRefused(f"no fault has the word {word!r}{suggestion(word, FAULT_WORD_NAMES)}")
    if word in _TEXTS and not (isinstance(value, str) and value):
        raise FaultRefused(f"{word} is a name, not {value!r}")
    if word in INTEGERS and not (_is_integer(value) and value >= INTEGERS[word]):
        raise FaultRefused(f"{word} is an integer of at least {INTEGERS[word]}, not {value!r}")
    if word == "seed" and not _is_integer(value):
        raise FaultRefused(f"seed is an integer, not {value!r}")
    if word == "probability" and not (_is_number(value) and 0 <= value <= 1):
        raise FaultRefused(f"probability is between 0 and 1, not {value!r}")
    if word in (ActionKind.DELAY, ActionKind.THROTTLE) and not (_is_integer(value) and 0 < value <= DELAY_MS_MAX):
        raise FaultRefused(f"{word} is a number of milliseconds between 1 and {DELAY_MS_MAX}, not {value!r}")
    if word in CHOICES and value not in CHOICES[word]:
        raise FaultRefused(f"{word} is {' or '.join(map(repr, CHOICES[word]))}, not {value!r}")


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _apis(named: Any) -> list[Api] | None:
    """The APIs that a fault names: one, or a list of them; None if it names none."""
    if named is None:
        return None
    names = [named] if isinstance(named, str) else named
    if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str) for name in names):
        raise FaultRefused(f"api is the name of an API or a list of names, not {named!r}")
    found = []
    for name in names:
        api = api_named(name)
        if api is None:
            raise FaultRefused(f"no API is named {name!r}{suggestion(name, [each.name for each in APIS.values()])}")
        found.append(api)
    return found


def _check_selection(selection: Selection, apis: list[Api] | None) -> None:
    """Refuse a selection that no request of the APIs can match."""
    if selection.partition is not None and selection.topic is None:
        raise FaultRefused("a partition needs its topic")
    for kind, chosen in (
        (TOPIC, selection.topic),
        (PARTITION, selection.partition),
        (GROUP, selection.group),
        (TRANSACTION, selection.transactional_id),
    ):
        for api in apis or ():
            if chosen is not None and kind not in kinds_of(api):
                raise FaultRefused(f"no request of {api.name} names a {kind}, so {kind}={chosen!r} never matches")


def _error_code(name: Any) -> ErrorCode:
    if _is_integer(name) and name in {code.value for code in ErrorCode}:
        raise FaultRefused(f"error is a name: {ErrorCode(name).name!r} for {name}")
    if not isinstance(name, str) or name not in ErrorCode.__members__:
        raise FaultRefused(f"Kafka has no error {name!r}{suggestion(str(name), ErrorCode.__members__)}")
    if ErrorCode[name] is ErrorCode.NONE:
        raise FaultRefused("NONE is the code of success")
    return ErrorCode[name]


def _check_action(fault: Fault, apis: list[Api] | None) -> None:
    """Refuse an action that the answers of the APIs cannot show."""
    needed = _OF_ONE_API.get(fault.kind)
    if needed is not None and fault.selection.apis != frozenset({needed}):
        raise FaultRefused(f"{fault.kind} needs api={needed!r}")
    if fault.kind not in (ActionKind.ERROR, ActionKind.THROTTLE):
        return
    if apis is None:
        raise FaultRefused(f"{fault.kind} needs the word api")
    for api in apis:
        if fault.kind is ActionKind.ERROR and not carries_error(api, api.max_version):
            raise FaultRefused(f"the responses of {api.name} have one error per entry, which a fault cannot choose")
        if fault.value in WHOLE_RESPONSE_ERRORS and error_field(api.response) is None:
            raise FaultRefused(f"{api.name} has no error code for the whole response, which {fault.value.name} needs")
        if fault.kind is ActionKind.THROTTLE and not _carries_throttle_time(api):
            raise FaultRefused(f"the responses of {api.name} have no throttle time")


def _carries_throttle_time(api: Api) -> bool:
    return "throttle_time_ms" in {spec.name for spec in api.response.__fields__}


@cache
def carries_error(api: Api, version: int) -> bool:
    """True if the whole response, or the innermost element of its shape, has an error code in this version."""
    answer: type[Any] = api.response
    for level in shape_of(api, version):
        answer = element_class(answer, level.answered)
    return error_field(answer, version) is not None
