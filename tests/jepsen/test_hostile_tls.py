"""Hostile clients of a port of TLS send openings of every kind; a node answers no damaged record of theirs."""

import ssl
from collections import Counter
from pathlib import Path
from random import Random

from broker.handlers import HANDLERS
from broker.wire.api.api_versions import ApiVersionsRequest
from jepsen.hostile.frames import frame
from jepsen.hostile.target import Target
from jepsen.hostile.tls_records import client_hello, hostile_opening, record
from jepsen.hostile.tls_stories import Damage, Opening, Session, tls_story
from jepsen.processes.fuzz.story_runner import TLS, StoryRunner, TlsStory
from tests.support.certificates import TestAuthority
from tests.support.running_node import running_node

_STORIES = 300
_APIS = tuple((handler.api_key, handler.min_version, handler.max_version) for handler in HANDLERS)
_TARGET = Target("cluster", 7, 3, 20, b"\x01" * 16, (b"\x02" * 16,), _APIS, _APIS, _APIS)


def test_server_answers_sound_client_hello_and_takes_no_hostile_opening(tmp_path: Path) -> None:
    """Some openings get an answer, so hostile bytes arrive in each state of a handshake. None completes it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TestAuthority(tmp_path).issue("node").file)
    hellos = [[record(client_hello(Random(seed)))] for seed in range(20)]
    assert {_outcome_of_handshake(context, writes) for writes in hellos} == {"answer"}
    openings = [hostile_opening(Random(seed)) for seed in range(600)]
    outcomes = Counter(_outcome_of_handshake(context, writes) for writes in openings)
    assert "complete" not in outcomes
    assert outcomes["answer"] > 30
    expected = {"BAD_EXTENSION", "LENGTH_MISMATCH", "BAD_RECORD_TYPE", "PACKET_LENGTH_TOO_LONG", "UNEXPECTED_MESSAGE"}
    assert expected <= set(outcomes)


def _outcome_of_handshake(context: ssl.SSLContext, writes: list[bytes]) -> str:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(incoming, outgoing, server_side=True)
    for write in writes:
        incoming.write(write)
        try:
            server.do_handshake()
            return "complete"
        except ssl.SSLWantReadError:
            continue
        except ssl.SSLError as error:
            return str(error.reason)
    return "answer" if outgoing.pending else "wait"


def test_tls_stories_have_openings_and_every_damage() -> None:
    conversations = [each for seed in range(_STORIES) for each in tls_story(Random(seed), _TARGET)]
    sessions = [each for each in conversations if isinstance(each, Session)]
    assert {(each.damage, each.is_newest) for each in sessions} == {
        (damage, is_newest) for damage in (None, *Damage) for is_newest in (False, True)
    }
    assert {each.damaged_write for each in sessions} == {0, 1, 2, 3, 4}
    assert sum(isinstance(each, Opening) for each in conversations) > len(sessions)
    assert [tls_story(Random(seed), _TARGET) for seed in range(20)] == [
        tls_story(Random(seed), _TARGET) for seed in range(20)
    ]


async def test_node_answers_whole_records_and_no_damaged_ones(tmp_path: Path) -> None:
    """The writes of these clients arrive in pieces of five bytes."""
    ping = frame(ApiVersionsRequest(client_software_name="hostile", client_software_version="1"), 3, 1)
    whole = [Session(is_newest, 5, [[ping] * 3], None, 0, ping) for is_newest in (False, True)]
    flipped = [
        Session(is_newest, 5, [], Damage.FLIPPED, write, ping) for is_newest in (False, True) for write in (0, 1, 2)
    ]
    cut = Session(True, 5, [], Damage.CUT, 2, ping)
    repeated = Session(True, 5, [], Damage.REPEATED, 2, ping)
    node = TestAuthority(tmp_path).issue("node", "127.0.0.1")
    overrides = {
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0,TLS://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(node.file),
    }
    async with running_node(tmp_path, **overrides) as running:
        runner = StoryRunner(_TARGET, {TLS: running.port_of("TLS")}, (TLS,), seed=1)
        for session in whole:
            await TlsStory(runner, 0).run([session])
        assert runner.counts.answered == {"ApiVersions": 8}
        await TlsStory(runner, 1).run([*flipped, cut])
        assert runner.counts.answered == {"ApiVersions": 8}
        await TlsStory(runner, 2).run([repeated])
        # The record is answered, unless its repetition has arrived with it. The repetition never is.
        assert runner.counts.answered["ApiVersions"] in (8, 9)
        assert runner.counts.bad_responses == []
        assert running.traced.of("handler_failed") == []
