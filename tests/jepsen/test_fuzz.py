"""Hostile stories are determined by their seed, cover every API, and do no harm with valid requests; a node survives
them.
"""

from base64 import urlsafe_b64decode
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio

from broker.handlers import CONTROLLER_HANDLERS, HANDLERS
from broker.security.oauth.key_set import parse_key_set
from broker.security.sasl.exchange import InvalidToken
from broker.security.sasl.jaas import PLAIN_MODULE
from broker.security.sasl.plain import PlainClient
from broker.server.handler_entry import HandlerEntry
from broker.wire.api import APIS
from broker.wire.api.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialDeletion
from broker.wire.api.delete_topics import DeleteTopicsRequest
from broker.wire.api.envelope import EnvelopeRequest
from broker.wire.api.sasl_authenticate import SaslAuthenticateRequest
from broker.wire.api.sasl_handshake import SaslHandshakeRequest
from broker.wire.api.unregister_broker import UnregisterBrokerRequest
from broker.wire.codec import decode
from broker.wire.header import parse_request_header
from jepsen.hostile.frames import Frame, frame, request_payload, spoiled_frame
from jepsen.hostile.harm import is_harmful
from jepsen.hostile.json_tokens import key_set, sound_token, spoiled_token
from jepsen.hostile.quorum_stories import QuorumStoryTools
from jepsen.hostile.stories import broker_story, controller_story, sasl_story
from jepsen.hostile.story import Story, StoryTools
from jepsen.hostile.target import HEALTHY_USER, NODE_ID, SUPER_PASSWORD, SUPER_USER, Target
from jepsen.processes.fuzz.command import longest_hold_ms, summary_text
from jepsen.processes.fuzz.fuzz_run import FuzzRun, FuzzRunPlan
from jepsen.processes.fuzz.fuzzed_node import FuzzedNode
from jepsen.processes.fuzz.story_runner import PORTS, SASL, SaslStory, StoryRunner
from kraft.message_codec import REQUESTS
from tests.support.linux import reads_proc
from tests.support.running_node import running_node
from tests.support.sasl import sasl_node, sasl_port

STORIES = 450
DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS = 29, 30, 31


def served(handlers: tuple[HandlerEntry, ...]) -> tuple[tuple[int, int, int], ...]:
    return tuple((handler.api_key, handler.min_version, handler.max_version) for handler in handlers)


TARGET = Target(
    cluster_id="cluster",
    peer_id=7,
    epoch=3,
    log_end_offset=20,
    directory_id=b"\x01" * 16,
    topic_ids=tuple(bytes([index]) * 16 for index in range(1, 7)),
    broker_apis=served(HANDLERS),
    controller_apis=served(CONTROLLER_HANDLERS),
    sasl_apis=served(HANDLERS),
)


def frames(story: Story) -> Iterator[Frame]:
    """All frames of a story, which gets no responses."""
    answers: list[Any] | None = None
    try:
        while True:
            window = next(story) if answers is None else story.send(answers)
            yield from window
            answers = [None] * len(window)
    except StopIteration:
        return


@pytest.mark.parametrize("make", [broker_story, controller_story, sasl_story])
def test_story_follows_from_its_generator(make: Callable[[Random, Target], Story]) -> None:
    def told_with(seed: int) -> list[Frame]:
        return list(frames(make(Random(seed), TARGET)))

    assert [told_with(seed) for seed in range(20)] == [told_with(seed) for seed in range(20)]


@pytest.mark.parametrize(
    ("make", "handlers"),
    [(broker_story, HANDLERS), (controller_story, CONTROLLER_HANDLERS)],
    ids=["broker", "controller"],
)
def test_stories_cover_every_api_and_version(
    make: Callable[[Random, Target], Story], handlers: tuple[HandlerEntry, ...]
) -> None:
    sent = Counter(
        (frame.key, frame.version)
        for seed in range(STORIES)
        for frame in frames(make(Random(seed), TARGET))
        if frame.is_decodable
    )
    expected = {
        (key, version)
        for key, first, last in served(handlers)
        for version in range(max(first, APIS[key].min_version), last + 1)
    }
    # Feature updates are sent only with validate-only, which version 0 does not support.
    assert expected - set(sent) <= {(57, 0)}


def test_quorum_stories_cover_every_message() -> None:
    names: Counter[str] = Counter()
    for seed in range(STORIES):
        story_tools = QuorumStoryTools(Random(seed), TARGET)
        story = story_tools.story()
        window = next(story)
        for _ in range(4):
            names.update(frame.name for frame in window if frame.is_sound)
            window = story.send([])
    assert {cls.__name__ for cls in REQUESTS.values()} <= set(names)


@pytest.mark.parametrize("make", [broker_story, controller_story, sasl_story])
def test_no_story_does_legal_harm(make: Callable[[Random, Target], Story]) -> None:
    sent = [frame for seed in range(STORIES) for frame in frames(make(Random(seed), TARGET))]
    assert not [frame for frame in sent if frame.is_harmful]


def test_harm_is_found_within_an_envelope_and_after_wrong_bytes() -> None:
    harmful = UnregisterBrokerRequest(broker_id=NODE_ID)
    payload = request_payload(harmful, 0, 1)
    assert is_harmful(EnvelopeRequest(request_data=payload))
    assert spoiled_frame(payload + b"more").is_harmful
    assert not is_harmful(UnregisterBrokerRequest(broker_id=99))
    assert is_harmful(DeleteTopicsRequest(topic_names=["__consumer_offsets"]))
    deletion = ScramCredentialDeletion(name=HEALTHY_USER, mechanism=1)
    assert is_harmful(AlterUserScramCredentialsRequest(deletions=[deletion]))


def test_only_signed_tokens_have_a_valid_signature() -> None:
    """A story knows which of its tokens a node must not accept."""
    keys = parse_key_set(key_set().encode())
    assert keys.verified_claims(sound_token())["sub"] == "hostile-token"
    accepted = Counter[bool]()
    for seed in range(600):
        token, is_signed = spoiled_token(Random(seed))
        try:
            keys.verified_claims(token)
        except InvalidToken:
            continue
        assert is_signed, f"seed {seed}: {token:.200}"
        accepted[is_signed] += 1
    assert accepted[True] > 50


def test_spoiled_tokens_have_foreign_keys_no_algorithm_and_huge_parts() -> None:
    tokens = [spoiled_token(Random(seed)) for seed in range(2_000)]
    decoded = []
    for token, _ in tokens:
        with suppress(ValueError):  # the encoding of some headers is spoiled
            decoded.append(urlsafe_b64decode(token.partition(".")[0] + "==="))
    for expected in (b'"alg": "none"', b'"alg": "HS256"', b'"jwk": {"kty": "OKP"', b'"kid": "other"'):
        assert any(expected in header for header in decoded), expected
    assert max(len(token) for token, _ in tokens) > 400_000


def test_acl_requests_have_edge_values() -> None:
    """Unknown numbers of enumerations, names that are empty, huge or null, and several equal entries."""
    sent = {key: _requests(key) for key in (CREATE_ACLS, DESCRIBE_ACLS, DELETE_ACLS)}
    created = [creation for request in sent[CREATE_ACLS] for creation in request.creations]
    filters = [each for request in sent[DELETE_ACLS] for each in request.filters] + sent[DESCRIBE_ACLS]
    for numbers in (
        {creation.operation for creation in created},
        {creation.permission_type for creation in created},
        {creation.resource_type for creation in created},
        {each.operation for each in filters},
        {each.permission_type for each in filters},
        {each.resource_type_filter for each in filters},
    ):
        assert {-128, -1, 0, 127} <= numbers
    assert {"", "*", "kafka-cluster"} <= {creation.resource_name for creation in created}
    assert {"User:*", "User:", "Group:x", ""} <= {creation.principal for creation in created}
    for names in (
        {each.resource_name_filter for each in filters},
        {each.principal_filter for each in filters},
        {each.host_filter for each in filters},
    ):
        assert {None, ""} <= names
        assert max(len(name) for name in names if name is not None) > 10_000
    assert max(len(request.creations) for request in sent[CREATE_ACLS]) == 30


def _requests(key: int) -> list[Any]:
    """Hostile requests of an API, as a node decodes them."""
    decoded = []
    for seed in range(400):
        sent = StoryTools(Random(seed), TARGET, TARGET.broker_apis).plausible(key, 0.4)
        if sent.key == key:  # others are pings, instead of requests that no version can carry
            *_, start = parse_request_header(sent.data[4:])
            decoded.append(decode(APIS[key].request, sent.version, sent.data[4:], start)[0])
    return decoded


def test_longest_hold_is_the_one_on_the_processor() -> None:
    held = (
        "kraft: 2026-01-02T03:04:05.678Z warning node 1: loop_held: nothing else was served for {} ms, {} ms of them "
        "on the processor, because of x"
    )
    assert longest_hold_ms([held.format("1,101", "86"), held.format("115", "1,095"), "loop_held: more"]) == 1_095
    assert longest_hold_ms([]) == 0


def test_printed_secret_is_found(tmp_path: Path) -> None:
    node = FuzzedNode(tmp_path, {})
    node.output_path.write_text(f"kraft: listening\nkraft: user={SUPER_USER} password={SUPER_PASSWORD}\n")
    assert node.printed_secrets() == [f"kraft: user={SUPER_USER} password={SUPER_PASSWORD}"]


@reads_proc
async def test_node_lives_through_hostile_frames_on_all_ports(tmp_path: Path, figure: Callable[[str], None]) -> None:
    """Its healthy client is not affected. `python -m jepsen fuzz` sends millions of frames."""
    seed = 1  # fixed, so that a failure is reproducible; `make fuzz` uses other seeds
    print(f"python -m jepsen fuzz --seed {seed} --frames 4000")
    plan = FuzzRunPlan(seed, 0, PORTS, frames=4_000, stories=10_000, seconds=60.0, jobs=1, lanes=8)
    directory = tmp_path / "run"
    directory.mkdir()
    with trio.fail_after(240):
        findings = await FuzzRun(FuzzedNode(directory, {}), plan).run()
    figure(summary_text(plan, findings))
    assert findings.problems == [], summary_text(plan, findings)
    assert set(findings.frames) == set(PORTS)
    assert findings.authentications > 0
    assert findings.healthy["logins"] > 0


async def test_response_before_authentication_is_a_finding(tmp_path: Path) -> None:
    """The stories for SASL meet a listener that serves everyone."""
    async with running_node(tmp_path) as node:
        runner = StoryRunner(TARGET, {SASL: node.port}, (SASL,), seed=1)
        for story in range(20):
            await runner.run_story(story)
    errors = {error.partition(" was answered ")[2] for _, error in runner.counts.bad_responses}
    assert "before the client has authenticated" in errors


async def test_authentication_by_an_invalid_message_is_a_finding(tmp_path: Path) -> None:
    """The story's message is marked as one that must not authenticate, and the node accepts its password."""
    wrong = f'{PLAIN_MODULE} required user_{SUPER_USER}="wrong";'
    async with sasl_node(tmp_path, **{"listener.name.clients.plain.sasl.jaas.config": wrong}) as node:
        runner = StoryRunner(TARGET, {SASL: sasl_port(node)}, (SASL,), seed=1)
        await SaslStory(runner, 0, SASL).run(_login_with_password("wrong"))
    assert [error for _, error in runner.counts.bad_responses] == [
        "the client was authenticated by an invalid message in SaslAuthenticate v2"
    ]


def _login_with_password(password: str) -> Story:
    yield [frame(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1)]
    yield [frame(SaslAuthenticateRequest(auth_bytes=PlainClient(SUPER_USER, password).first()), 2, 2)]
