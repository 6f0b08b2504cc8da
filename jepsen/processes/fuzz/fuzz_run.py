"""One fuzz run: sends stories to a new node up to a limit, samples its resources, then restarts it and checks its data.

Generator processes send the stories. A story is a sequence of hostile frames, derived from the seed and its number.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from broker.wire.api.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from broker.wire.api.api_versions import ApiVersionsRequest
from broker.wire.api.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from broker.wire.api.describe_quorum import DescribeQuorumRequest, RequestedPartition, RequestedTopic
from broker.wire.api.find_coordinator import FindCoordinatorRequest
from broker.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from broker.wire.records import iter_headers, iter_records
from broker.wire.uuids import decode_uuid
from jepsen.hostile.broker_stories import registration
from jepsen.hostile.target import (
    FAKE_BROKER_ID,
    GROUPS,
    HEALTHY_PASSWORD,
    HEALTHY_USER,
    PARTITIONS,
    PEER_VOTER_ID,
    SCRAM_PASSWORD,
    SCRAM_USER,
    TOPICS,
)
from jepsen.processes.fuzz import healthy
from jepsen.processes.fuzz.fuzzed_node import FuzzedNode, Unserved
from jepsen.processes.fuzz.healthy_process import HealthyProcess
from jepsen.processes.fuzz.story_runner import CONTROLLER, KAFKA, SASL, TLS
from jepsen.workloads.connection import Connection
from metadata.protocol import ScramMechanism
from metadata.protocol.scram import ITERATIONS_MIN, salted_password

_WATCH_S: Final = 1.0
_SET_UP_S: Final = 60.0
_REGISTRATION_VERSION: Final = 4
_DESCRIBE_QUORUM_VERSION: Final = 2
_FETCH_BYTES: Final = 1_000_000


@attrs.frozen
class FuzzRunPlan:
    """Stories are numbered from `first` on. `jobs` generator processes send them, `lanes` at a time each.

    The run ends after `frames` frames, `stories` stories or `seconds` seconds, whichever comes first.
    """

    seed: int
    first: int
    ports: Sequence[str]
    frames: int
    stories: int
    seconds: float
    jobs: int
    lanes: int


@attrs.define
class Findings:
    """The result of a run. `problems` is empty if the run passed."""

    frames: Counter[str] = attrs.field(factory=Counter)
    answered: Counter[str] = attrs.field(factory=Counter)
    closed: Counter[str] = attrs.field(factory=Counter)
    unanswered: Counter[str] = attrs.field(factory=Counter)
    refused_bytes: int = 0
    connections: int = 0
    authentications: int = 0
    next_story: int = 0
    seconds: float = 0.0
    node_cpu_seconds: float = 0.0
    run_delay_seconds: float = 0.0
    resident_bytes: list[tuple[float, int]] = attrs.field(factory=list)
    open_files_max: int = 0
    data_bytes_max: int = 0
    healthy: dict[str, Any] = attrs.field(factory=dict)
    restarts_s: dict[str, float] = attrs.field(factory=dict)
    holds: list[str] = attrs.field(factory=list)
    tracebacks: list[str] = attrs.field(factory=list)
    suspects: list[int] = attrs.field(factory=list)
    problems: list[str] = attrs.field(factory=list)

    @property
    def total(self) -> int:
        return sum(self.frames.values())


class FuzzRun:
    """Runs `plan` against `node`, which has not been started yet."""

    def __init__(self, node: FuzzedNode, plan: FuzzRunPlan) -> None:
        self._node = node
        self._plan = plan
        self._findings = Findings()
        self._reports: list[dict[str, Any]] = [{} for _ in range(plan.jobs)]
        self._tracebacks_known = 0

    async def run(self) -> Findings:
        """Run the plan to its end. A failure is returned as a problem, not raised."""
        findings = self._findings
        try:
            await self._node.start()
            target = await set_up(self._node)
            client = HealthyProcess(self._node)
            began, cpu, delay = time.monotonic(), self._node.cpu_seconds(), self._node.run_delay_seconds()
            try:
                await self._fuzz(target)
            finally:
                findings.seconds = time.monotonic() - began
                if self._node.is_running:
                    findings.node_cpu_seconds = self._node.cpu_seconds() - cpu
                    findings.run_delay_seconds = self._node.run_delay_seconds() - delay
                findings.healthy = await client.end()
            await self._check_afterwards()
        except (Unserved, AssertionError, OSError) as error:
            findings.problems.append(str(error))
        finally:
            self._node.discard()
        self._judge()
        return findings

    async def _fuzz(self, target: dict[str, Any]) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch)
            async with trio.open_nursery() as generators:
                for job in range(self._plan.jobs):
                    generators.start_soon(self._generate, job, target)
            nursery.cancel_scope.cancel()
        self._sample()
        self._merge()

    async def _generate(self, job: int, target: dict[str, Any]) -> None:
        plan = self._plan
        options = {
            "seed": plan.seed,
            "first": plan.first + job,
            "step": plan.jobs,
            "ports": list(plan.ports),
            "port_of": _ports(self._node),
            "target": target,
            "lanes": plan.lanes,
            "frames": plan.frames // plan.jobs,
            "stories": -(-plan.stories // plan.jobs),
            "seconds": plan.seconds,
        }
        command = [sys.executable, "-m", "jepsen.processes.fuzz.generator", json.dumps(options)]
        async with trio.open_nursery() as nursery:
            run = partial(trio.run_process, stdin=b"", stdout=subprocess.PIPE, check=False)
            process: trio.Process = await nursery.start(run, command)
            assert process.stdout is not None, "the process was started with a pipe"
            buffer = b""
            async for data in process.stdout:
                *lines, buffer = (buffer + data).split(b"\n")
                if lines:
                    self._reports[job] = json.loads(lines[-1])
        if not self._reports[job].get("ended"):
            self._findings.problems.append(f"generator {job} has failed")
        if error := self._reports[job].get("error"):
            self._findings.problems.append(error)

    async def _watch(self) -> None:
        while self._node.is_running:
            self._sample()
            await trio.sleep(_WATCH_S)

    def _sample(self) -> None:
        findings, node = self._findings, self._node
        if not node.is_running:
            return
        findings.resident_bytes.append((time.monotonic(), node.resident_bytes()))
        findings.open_files_max = max(findings.open_files_max, node.open_files())
        if len(findings.resident_bytes) % 30 == 1:
            findings.data_bytes_max = max(findings.data_bytes_max, node.data_bytes())
        tracebacks = node.tracebacks()
        if len(tracebacks) > self._tracebacks_known:
            self._tracebacks_known = len(tracebacks)
            for report in self._reports:
                findings.suspects += [story for story, _, _ in report.get("closings", [])[-8:]]
                findings.suspects += report.get("under_way", [])

    def _merge(self) -> None:
        findings = self._findings
        for report in self._reports:
            for name in ("frames", "answered", "closed", "unanswered"):
                getattr(findings, name).update(report.get(name, {}))
            findings.refused_bytes += report.get("refused_bytes", 0)
            findings.connections += report.get("connections", 0)
            findings.authentications += report.get("authentications", 0)
            findings.next_story = max(findings.next_story, report.get("last_story", -1) + 1)
            for story, error in report.get("bad_responses", []):
                findings.suspects.append(story)
                findings.problems.append(f"story {story}: {error}")
            if not self._node.is_running:
                findings.suspects += report.get("under_way", [])

    async def _check_afterwards(self) -> None:
        """Check that all records of the healthy client can be read: now, after a clean restart, and after kill -9."""
        node, findings = self._node, self._findings
        if not node.is_running:
            return
        expected = findings.healthy.get("records", 0)
        await _check_records(node.port, expected)
        findings.restarts_s["stop"] = await node.stop()
        findings.restarts_s["start after stop"] = await node.start()
        await _check_records(node.port, expected)
        await node.kill()
        findings.restarts_s["start after kill -9"] = await node.start()
        await _check_records(node.port, expected)
        await node.stop()

    def _judge(self) -> None:
        findings = self._findings
        findings.tracebacks = self._node.tracebacks()
        findings.problems += [f"the node has printed a secret: {line}" for line in self._node.printed_secrets()]
        findings.holds = self._node.loop_holds()
        if findings.tracebacks:
            findings.problems.append(f"{len(findings.tracebacks)} tracebacks in the node's output")
        if error := findings.healthy.get("error"):
            findings.problems.append(f"the healthy client has failed: {error}")
        findings.suspects = list(dict.fromkeys(findings.suspects))


def _ports(node: FuzzedNode) -> dict[str, int]:
    return {KAFKA: node.port, CONTROLLER: node.controller_port, SASL: node.sasl_port, TLS: node.tls_port}


async def set_up(node: FuzzedNode) -> dict[str, Any]:
    """Create the topics, register the fake broker and load the groups. Returns what stories need to know."""
    with trio.fail_after(_SET_UP_S):
        broker = await Connection.open(("127.0.0.1", node.port), 0)
        controller = await Connection.open(("127.0.0.1", node.controller_port), 0)
        clients = await Connection.open(("127.0.0.1", node.sasl_port), 0)
        topics = [CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=1) for name in TOPICS]
        forever = [CreatableTopicConfig(name=name, value="-1") for name in ("retention.ms", "retention.bytes")]
        topics.append(CreatableTopic(name=healthy.TOPIC, num_partitions=1, replication_factor=1, configs=forever))
        await broker.call(CreateTopicsRequest(topics=topics, timeout_ms=30_000), 7, healthy.TIMEOUT_S)
        await _create_users(broker)
        await _load_groups(broker)
        described = await broker.call(
            MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in TOPICS]), healthy.METADATA_VERSION
        )
        ids = {topic.name: topic.topic_id for topic in described.topics}
        await controller.call(registration(described.cluster_id), _REGISTRATION_VERSION)
        target = {
            "cluster_id": described.cluster_id,
            **await _quorum_of(controller),
            "directory_id": _directory_id(node.data).hex(),
            "topic_ids": [ids[name].hex() for name in TOPICS],
            "broker_apis": await _served(broker),
            "controller_apis": await _served(controller),
            "sasl_apis": await _served(clients),
        }
        await clients.aclose()
        await broker.aclose()
        await controller.aclose()
        return target


async def _quorum_of(controller: Connection) -> dict[str, int]:
    """The id under which stories speak to the quorum, the epoch, and the end of the quorum's log."""
    topic = RequestedTopic(topic_name="__cluster_metadata", partitions=[RequestedPartition()])
    response = await controller.call(DescribeQuorumRequest(topics=[topic]), _DESCRIBE_QUORUM_VERSION)
    partition = response.topics[0].partitions[0]
    voters = [voter.replica_id for voter in partition.current_voters]
    return {
        "peer_id": PEER_VOTER_ID if PEER_VOTER_ID in voters else FAKE_BROKER_ID,
        "epoch": partition.leader_epoch,
        "log_end_offset": partition.high_watermark,
    }


async def _create_users(broker: Connection) -> None:
    """Create the users of SCRAM, of whom a request may alter one mechanism only."""
    users = ((SCRAM_USER, SCRAM_PASSWORD), (HEALTHY_USER, HEALTHY_PASSWORD))
    for mechanism in ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512:
        upsertions = [
            ScramCredentialUpsertion(
                name=user,
                mechanism=mechanism,
                iterations=ITERATIONS_MIN,
                salt=b"salt",
                salted_password=salted_password(mechanism, password, b"salt", ITERATIONS_MIN),
            )
            for user, password in users
        ]
        response = await broker.call(AlterUserScramCredentialsRequest(upsertions=upsertions), 0, healthy.TIMEOUT_S)
        assert not any(each.error_code for each in response.results), response.results


async def _load_groups(broker: Connection) -> None:
    """Wait until the offsets topic exists and every group has a coordinator."""
    while True:
        response = await broker.call(FindCoordinatorRequest(coordinator_keys=list(GROUPS)), 4)
        if not any(each.error_code for each in response.coordinators):
            return
        await trio.sleep(0.1)


async def _served(connection: Connection) -> list[tuple[int, int, int]]:
    request = ApiVersionsRequest(client_software_name="hostile", client_software_version="1")
    response = await connection.call(request, 3)
    return [(each.api_key, each.min_version, each.max_version) for each in response.api_keys]


def _directory_id(data: Path) -> bytes:
    lines = (data / "meta.properties").read_text().splitlines()
    properties = dict(line.split("=", 1) for line in lines if "=" in line)
    return bytes(decode_uuid(properties["directory.id"]))


async def _check_records(port: int, expected: int) -> None:
    """Raises AssertionError unless the healthy client's topic starts with the records 0 to `expected` - 1, in order."""
    connection = await Connection.open(("127.0.0.1", port), 0)
    number = 0
    while number < expected:
        batches = await healthy.fetch(connection, number, _FETCH_BYTES)
        for position, header in iter_headers(batches):
            for record in iter_records(batches, position, header):
                assert (record.offset, record.value) == (number, b"%d" % number), (
                    f"a healthy record is not what was written at offset {number}: {record}"
                )
                number += 1
    await connection.aclose()


def write_report(findings: Findings, plan: FuzzRunPlan, path: Path) -> None:
    report = {"plan": attrs.asdict(plan), **attrs.asdict(findings), "total": findings.total}
    path.write_text(json.dumps(report, indent=1) + os.linesep)
