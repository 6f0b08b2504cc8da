"""The node that is fuzzed: a combined controller and broker in its own process. Reads its resources and output."""

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import trio

from broker.config import DEVELOPMENT_DEFAULTS
from broker.security.sasl.jaas import PLAIN_MODULE
from broker.security.tls.private_authority import PrivateAuthority
from jepsen.hostile.json_tokens import AUDIENCE, key_set
from jepsen.hostile.sasl_messages import MECHANISMS
from jepsen.hostile.target import HEALTHY_PASSWORD, HEALTHY_USER, SCRAM_PASSWORD, SUPER_PASSWORD, SUPER_USER
from jepsen.processes.ports import free_ports
from jepsen.processes.server_process import ServerProcess

START_S: Final = 120.0
STOP_S: Final = 60.0
_LOOK_S: Final = 0.02
# Small files and short timeouts, so that states that depend on time are reached during a run.
_SETTINGS: Final[Mapping[str, str]] = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.segment.bytes": "1048576",
    "default.replication.factor": "1",
    "log.segment.bytes": "1048576",
    "log.retention.bytes": "8388608",
    "log.retention.check.interval.ms": "2000",
    "log.segment.delete.delay.ms": "1000",
    "log.cleaner.backoff.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "50",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
    "producer.id.expiration.ms": "5000",
    "metadata.log.max.record.bytes.between.snapshots": "1000000",
    "broker.session.timeout.ms": "60000",
    # Clients of the listeners without SASL keep all rights.
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:ANONYMOUS;User:{SUPER_USER};User:{HEALTHY_USER}",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENTS:SASL_PLAINTEXT,TLS:SSL",
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "sasl.oauthbearer.expected.audience": AUDIENCE,
    "connection.failed.authentication.delay.ms": "10",
    "listener.name.clients.plain.connections.max.reauth.ms": "3000",
    "delegation.token.max.lifetime.ms": "30000",
    "delegation.token.expiry.time.ms": "5000",
    "delegation.token.expiry.check.interval.ms": "1000",
}
_TOKEN_SECRET_KEY: Final = "secret of the fuzzed node"
# No output of the node may have these.
_SECRETS: Final = (SUPER_PASSWORD, SCRAM_PASSWORD, HEALTHY_PASSWORD, _TOKEN_SECRET_KEY)
# These are not on the command line, where other users of the machine could read them.
_SECRET_SETTINGS: Final[Mapping[str, str]] = {
    "listener.name.clients.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_{SUPER_USER}="{SUPER_PASSWORD}";',
    "delegation.token.secret.key": _TOKEN_SECRET_KEY,
}
_TRACEBACK: Final = re.compile(r"Traceback \(most recent call last\)")


class Unserved(AssertionError):
    """The node does not start, or does not stop. The message has the end of its output."""


class FuzzedNode(ServerProcess):
    """A node with its files in `directory`, which exists and is empty.

    `port` is that of clients without authentication, `controller_port` that of controllers and the quorum, `sasl_port`
    and `tls_port` those of clients that authenticate by SASL and that use TLS.
    """

    def __init__(self, directory: Path, overrides: Mapping[str, str]) -> None:
        super().__init__(directory / "output")
        self.data = directory / "data"
        self.port, self.controller_port, self.sasl_port, self.tls_port = free_ports(4)
        self._directory = directory
        self._overrides = dict(overrides)
        self._write_files()

    def command(self) -> Sequence[str]:
        ports = {
            "PLAINTEXT": self.port,
            "CONTROLLER": self.controller_port,
            "CLIENTS": self.sasl_port,
            "TLS": self.tls_port,
        }
        settings = {
            **DEVELOPMENT_DEFAULTS,
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self.controller_port}",
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
            "log.dirs": str(self.data),
            "sasl.oauthbearer.jwks.endpoint.url": (self._directory / "keys.json").absolute().as_uri(),
            "sasl.oauthbearer.allow.unverified.issuer": "true",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._directory / "node.pem"),
            **_SETTINGS,
            **self._overrides,
        }
        overrides = [part for key, value in settings.items() for part in ("--override", f"{key}={value}")]
        file = str(self._directory / "server.properties")
        return [sys.executable, "-m", "jepsen.processes.fuzz.traced_node", "start", file, *overrides]

    @property
    def authority_path(self) -> Path:
        """The certificate of the authority that clients of the TLS port trust."""
        return self._directory / "authority.pem"

    def _write_files(self) -> None:
        authority = PrivateAuthority("fuzzed node", time.time())
        self.authority_path.write_bytes(authority.certificate)
        (self._directory / "node.pem").write_bytes(authority.issue("node", ("127.0.0.1",)))
        (self._directory / "keys.json").write_text(key_set())
        secrets = "".join(f"{key}={value}\n" for key, value in _SECRET_SETTINGS.items())
        (self._directory / "server.properties").write_text(secrets)

    async def start(self) -> float:
        """Start the node. Returns the seconds until it served. Raises Unserved."""
        began = time.monotonic()
        self.launch()
        if not await _holds(lambda: self.is_serving or not self.is_running, START_S) or not self.is_running:
            raise Unserved(f"the node does not start:\n{self.output_tail()}")
        return time.monotonic() - began

    async def stop(self) -> float:
        """Stop the node with SIGTERM. Returns the seconds until it ended. Raises Unserved."""
        return await self._end(signal.SIGTERM)

    async def kill(self) -> None:
        """kill -9."""
        await self._end(signal.SIGKILL)

    async def _end(self, signal_number: signal.Signals) -> float:
        began = time.monotonic()
        self.send(signal_number)
        if not await _holds(lambda: not self.is_running, STOP_S):
            self.send(signal.SIGUSR1)
            await trio.sleep(1)
            self.discard()
            raise Unserved(f"the node does not end after signal {signal_number}:\n{self.output_tail()}")
        return time.monotonic() - began

    def tracebacks(self) -> list[str]:
        """Each traceback in the output of all its starts that differs from those before it."""
        found: dict[str, None] = {}
        lines = self.output_path.read_text(errors="replace").splitlines()
        starts = [index for index, line in enumerate(lines) if _TRACEBACK.search(line)]
        for start in starts:
            end = start + 1
            while end < len(lines) and not lines[end].startswith("kraft: ") and end - start < 120:
                end += 1
            found.setdefault("\n".join(lines[start:end]))
        return list(_without_repetition(found))

    def loop_holds(self) -> list[str]:
        """The lines in the output of all its starts that report a held event loop."""
        lines = self.output_path.read_text(errors="replace").splitlines()
        return [line for line in lines if "loop_held: " in line]

    def printed_secrets(self) -> list[str]:
        """The lines in the output of all its starts that have a secret of a user or of the node."""
        lines = self.output_path.read_text(errors="replace").splitlines()
        return [line for line in lines if any(secret in line for secret in _SECRETS)]

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def run_delay_seconds(self) -> float:
        """The seconds that its threads waited for a CPU, which is the machine's part of a loop hold."""
        return int(Path(f"/proc/{self.pid}/schedstat").read_text().split()[1]) / 1e9

    def open_files(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def data_bytes(self) -> int:
        """The bytes in its files. The node removes some of them during the count."""
        size = 0
        for directory, _, names in os.walk(self.data):  # which passes over directories that are gone
            for name in names:
                with suppress(FileNotFoundError):
                    size += os.stat(os.path.join(directory, name)).st_size
        return size


def _without_repetition(tracebacks: Mapping[str, None]) -> list[str]:
    """One traceback for each place that raises."""
    by_place: dict[str, str] = {}
    for text in tracebacks:
        places = re.findall(r'File "([^"]+)", line (\d+)', text)
        by_place.setdefault(str(places[-1:] or text), text)
    return list(by_place.values())


async def _holds(condition: Callable[[], bool], seconds: float) -> bool:
    """True if the condition holds within so many seconds."""
    with trio.move_on_after(seconds):
        while not condition():
            await trio.sleep(_LOOK_S)
        return True
    return False
