"""Attacks on the ports of a node. Each attack is one connection, or a burst of them, that violates the protocol.

An attack gets a new connection and a random generator. It returns True if the connection is to stay open for a while,
stalled or unread, to simulate a peer that does nothing.
"""

import contextlib
import random
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

import attrs

from tests.support import valid_requests

Attack = Callable[[random.Random, socket.socket], bool]

LENGTH = struct.Struct(">i")
CONNECT_TIMEOUT_S = 10.0

# Long enough for a response, and short enough that a node which waits for more bytes does not delay the load.
ANSWER_TIMEOUT_S = 0.05


def listen_for_an_answer(sock: socket.socket) -> None:
    """Read a prompt response. An error or a closed connection also counts as a response."""
    sock.settimeout(ANSWER_TIMEOUT_S)
    with contextlib.suppress(OSError):
        sock.recv(65_536)


@attrs.define
class Attacks:
    """The attacks, made from mutated `frames`, on the topic `target`, which contains records."""

    target: str
    frames: list[bytes]
    bombs: list[bytes] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        records = valid_requests.bomb(20_000_000)
        self.bombs = [valid_requests.frame(valid_requests.produce(self.target, records), 9)]

    def all(self) -> list[Attack]:
        return [
            self.random_bytes,
            self.random_frame,
            self.wrong_length,
            self.truncated_frame,
            self.mutated_body,
            self.mutated_body,
            self.mutated_body,
            self.many_mutated_bodies,
            self.huge_count,
            self.unknown_api,
            self.lying_records,
            self.decompression_bomb,
            self.reset_without_reading,
            self.stalled_half_request,
            self.silence,
            self.unread_answers,
            self.dripping_bytes,
        ]

    def random_bytes(self, rng: random.Random, sock: socket.socket) -> bool:
        sock.sendall(rng.randbytes(rng.randrange(1, 5_000)))
        listen_for_an_answer(sock)
        return False

    def random_frame(self, rng: random.Random, sock: socket.socket) -> bool:
        body = rng.randbytes(rng.randrange(200))
        sock.sendall(LENGTH.pack(len(body)) + body)
        listen_for_an_answer(sock)
        return False

    def wrong_length(self, rng: random.Random, sock: socket.socket) -> bool:
        length = rng.choice([-1, -(2**31), 0, 1, 7, 2**31 - 1, 2**30, 104_857_601])
        sock.sendall(LENGTH.pack(length) + rng.randbytes(100))
        listen_for_an_answer(sock)
        return False

    def truncated_frame(self, rng: random.Random, sock: socket.socket) -> bool:
        request = rng.choice(self.frames)
        sock.sendall(request[: rng.randrange(1, len(request))])
        return False

    def mutated_body(self, rng: random.Random, sock: socket.socket) -> bool:
        sock.sendall(self._mutated(rng))
        listen_for_an_answer(sock)
        return False

    def many_mutated_bodies(self, rng: random.Random, sock: socket.socket) -> bool:
        for _ in range(20):
            sock.sendall(self._mutated(rng))
        listen_for_an_answer(sock)
        return False

    def _mutated(self, rng: random.Random) -> bytes:
        """A valid request with up to four changed bytes after its key and version; its length remains correct."""
        request = bytearray(rng.choice(self.frames))
        for _ in range(rng.randrange(1, 5)):
            request[rng.randrange(8, len(request))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        return bytes(request)

    def huge_count(self, rng: random.Random, sock: socket.socket) -> bool:
        """Write the largest number of elements, as four bytes or as a varint, at a random position of the body."""
        request = bytearray(rng.choice(self.frames))
        count = rng.choice([b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f", b"\xff" * 10])
        position = rng.randrange(8, max(9, len(request) - len(count)))
        request[position : position + len(count)] = count
        sock.sendall(LENGTH.pack(len(request) - LENGTH.size) + request[LENGTH.size :])
        listen_for_an_answer(sock)
        return False

    def unknown_api(self, rng: random.Random, sock: socket.socket) -> bool:
        request = bytearray(rng.choice(self.frames))
        struct.pack_into(
            ">h", request, rng.choice([4, 6]), rng.choice([-1, 25, 99, 500, 2**15 - 1, rng.randrange(100)])
        )
        sock.sendall(request)
        listen_for_an_answer(sock)
        return False

    def lying_records(self, rng: random.Random, sock: socket.socket) -> bool:
        """Send a Produce whose batch is damaged: header, count, sizes or bytes."""
        records = bytearray(
            valid_requests.record_batch(b"v" * rng.randrange(200), rng.choice([0, valid_requests.GZIP]))
        )
        records[rng.randrange(len(records))] ^= 1 << rng.randrange(8)
        damaged = bytes(records[: rng.randrange(len(records) // 2, len(records) + 1)])
        sock.sendall(valid_requests.frame(valid_requests.produce(self.target, damaged), rng.choice([3, 7, 9, 11])))
        listen_for_an_answer(sock)
        return False

    def decompression_bomb(self, rng: random.Random, sock: socket.socket) -> bool:
        sock.sendall(rng.choice(self.bombs))
        listen_for_an_answer(sock)
        return False

    def reset_without_reading(self, rng: random.Random, sock: socket.socket) -> bool:
        sock.sendall(b"".join(rng.choices(self.frames, k=5)))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False

    def stalled_half_request(self, rng: random.Random, sock: socket.socket) -> bool:
        """Announce a length of a hundred megabytes, or of a small request, and send only a part."""
        if rng.random() < 0.5:
            sock.sendall(LENGTH.pack(100_000_000) + rng.choice(self.frames)[4:] + bytes(50_000))
        else:
            request = rng.choice(self.frames)
            sock.sendall(request[: rng.randrange(1, len(request))])
        return True

    def silence(self, rng: random.Random, sock: socket.socket) -> bool:
        return True

    def unread_answers(self, rng: random.Random, sock: socket.socket) -> bool:
        """Request far more data than the socket buffers hold, repeatedly, and never read it."""
        kind = rng.randrange(2)
        request = valid_requests.frame(valid_requests.fetch(self.target), 11) if kind else rng.choice(self.frames)
        sock.settimeout(0.2)
        with contextlib.suppress(TimeoutError):
            for _ in range(2_000):
                sock.sendall(request)
        return True

    def dripping_bytes(self, rng: random.Random, sock: socket.socket) -> bool:
        for byte in rng.choice(self.frames)[:40]:
            sock.sendall(bytes([byte]))
        return True


@attrs.define
class AttackLoad:
    """Runs attacks on a node at a constant rate, several at once, some of which stay open for `hold_s` seconds.

    Raises AssertionError if the node does not accept a connection during the attacks.
    """

    address: tuple[str, int]
    attacks: list[Attack]
    rng: random.Random
    rate_per_s: float
    hold_s: float
    threads: int = 8
    made: int = 0
    _held: deque[tuple[float, socket.socket]] = attrs.field(init=False, factory=deque)

    def run(self, connections: int) -> None:
        """Make that many connections, including a burst of a hundred at once, and then close all of them."""
        began = time.monotonic()
        with ThreadPoolExecutor(self.threads) as pool:
            running: set[Future[None]] = set()
            for number in range(connections):
                time.sleep(max(0.0, began + number / self.rate_per_s - time.monotonic()))
                self._let_go(time.monotonic())
                running.add(pool.submit(self._attack, self.attacks[number % len(self.attacks)], self.rng.random()))
                if len(running) >= 2 * self.threads:
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        future.result()
                if number == connections // 2:
                    self._flood(100)
            for future in running:
                future.result()
        self.made += connections + 100
        self._let_go(float("inf"))

    def _attack(self, attack: Attack, seed: float) -> None:
        sock = socket.create_connection(self.address, CONNECT_TIMEOUT_S)
        keep = False
        try:
            # The node may close the connection meanwhile, which counts as a response.
            with contextlib.suppress(OSError):
                keep = attack(random.Random(seed), sock)
        finally:
            if keep:
                self._held.append((time.monotonic() + self.hold_s, sock))
            else:
                sock.close()

    def _flood(self, connections: int) -> None:
        sockets = [socket.create_connection(self.address, CONNECT_TIMEOUT_S) for _ in range(connections)]
        for sock in sockets:
            sock.close()

    def _let_go(self, now: float) -> None:
        while self._held and self._held[0][0] < now:
            self._held.popleft()[1].close()
