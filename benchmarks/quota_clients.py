"""Clients of the benchmark of quotas, each a process of its own that prints its figures as JSON.

    python -m benchmarks.quota_clients produce|consume|ignore|connect|ask HOST:PORT CLIENT_ID SECONDS TOPIC RATE

`produce` and `consume` are confluent-kafka. `ignore` sends produce requests regardless of the throttle times in the
responses. `connect` opens connections from 127.0.0.1 at a rate, `ask` sends small requests over one connection from
another address and measures how long each takes. The rate is in bytes, connections or requests per second; 0 is as fast
as possible.
"""

import json
import selectors
import socket
import statistics
import struct
import sys
import time
from collections.abc import Callable

from benchmarks import protocol

_VALUE = bytes(1000)
# The seconds at the beginning that are not measured: what a client that was idle may use at once has to be over.
_WARM_UP_S = 5.0
# A node that does not close connections in time must not use up the client's descriptors.
_OPEN_MAX = 8_192
_SENDER, _OTHER = "127.0.0.1", "127.0.0.2"


class _Meter:
    """Counts bytes by second, and the throttle times in responses."""

    def __init__(self, seconds: float, warm_up_s: float) -> None:
        self.began = time.perf_counter()
        self.measured_from = self.began + warm_up_s
        self.until = self.measured_from + seconds
        self._bytes = [0] * (int(warm_up_s + seconds) + 2)
        self._warm_up = int(warm_up_s)
        self._seconds = int(seconds)
        self.throttles: list[float] = []

    @property
    def is_over(self) -> bool:
        return time.perf_counter() >= self.until

    def count(self, size: int) -> None:
        self._bytes[min(int(time.perf_counter() - self.began), len(self._bytes) - 1)] += size

    def throttled(self, throttle_ms: float) -> None:
        if throttle_ms and time.perf_counter() >= self.measured_from:
            self.throttles.append(throttle_ms)

    def result(self) -> dict[str, float]:
        measured = self._bytes[self._warm_up : self._warm_up + self._seconds]
        from_start = self._bytes[:60]
        return {
            "mb_per_s": sum(measured) / self._seconds / 1e6,
            "first_minute": sum(from_start) / len(from_start) / 1e6,
            "slowest_mb_per_s": min(measured) / 1e6,
            "fastest_mb_per_s": max(measured) / 1e6,
            "throttled": len(self.throttles),
            "throttle_ms_mean": statistics.fmean(self.throttles) if self.throttles else 0.0,
            "throttle_ms_max": max(self.throttles, default=0.0),
        }


def produce(bootstrap: str, client_id: str, seconds: float, topic: str, rate: float) -> dict[str, float]:
    from confluent_kafka import Producer

    meter = _Meter(seconds, _WARM_UP_S)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "linger.ms": 5,
            "queue.buffering.max.kbytes": 2048,
            "message.timeout.ms": 120_000,
            "throttle_cb": lambda event: meter.throttled(event.throttle_time * 1000),
            "on_delivery": lambda error, message: meter.count(len(_VALUE)),
        }
    )
    sent = 0
    while not meter.is_over:
        if rate and sent * len(_VALUE) > rate * (time.perf_counter() - meter.began):
            producer.poll(0.001)
            continue
        try:
            producer.produce(topic, _VALUE)
            sent += 1
            producer.poll(0)
        except BufferError:
            producer.poll(0.01)
    producer.purge()
    return meter.result()


def consume(bootstrap: str, client_id: str, seconds: float, topic: str, rate: float) -> dict[str, float]:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    meter = _Meter(seconds, _WARM_UP_S)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "group.id": client_id,
            "throttle_cb": lambda event: meter.throttled(event.throttle_time * 1000),
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    while not meter.is_over:
        for message in consumer.consume(500, 0.1):
            if message.error() is None:
                meter.count(len(message.value() or b""))
    consumer.close()
    return meter.result()


def ignore(bootstrap: str, client_id: str, seconds: float, topic: str, rate: float) -> dict[str, float]:
    """Five requests in flight, whatever the responses say."""
    meter = _Meter(seconds, _WARM_UP_S)
    frame = protocol.produce(topic, 0, protocol.batch(50, len(_VALUE)))
    frame = frame[:12] + struct.pack(">h", len(client_id)) + client_id.encode() + frame[12 + 2 + 5 :]
    frame = struct.pack(">i", len(frame) - 4) + frame[4:]
    with socket.create_connection(_address(bootstrap), 60) as sock:
        reader = sock.makefile("rb")
        for _ in range(5):
            sock.sendall(frame)
        while not meter.is_over:
            reply = reader.read(struct.unpack(">i", reader.read(4))[0])
            assert not protocol.error_code(reply, protocol.produce_error_offset(topic))
            meter.throttled(struct.unpack_from(">i", reply, len(reply) - 5)[0])
            meter.count(len(frame))
            sock.sendall(frame)
    return meter.result()


def connect(bootstrap: str, client_id: str, seconds: float, topic: str, rate: float) -> dict[str, float]:
    """Open `rate` connections per second, and keep each until the node closes it; at most `_OPEN_MAX` at once."""
    began = time.perf_counter()
    opened = closed = refused = 0
    with selectors.DefaultSelector() as selector:
        while (now := time.perf_counter()) < began + seconds:
            while opened < rate * (now - began) and len(selector.get_map()) < _OPEN_MAX:
                opened += 1
                sock = socket.socket()
                sock.setblocking(False)
                sock.bind((_SENDER, 0))
                sock.connect_ex(_address(bootstrap))
                selector.register(sock, selectors.EVENT_READ)
            for key, _ in selector.select(0.001):
                assert isinstance(key.fileobj, socket.socket)
                selector.unregister(key.fileobj)
                try:
                    key.fileobj.recv(1)
                    closed += 1
                except OSError:
                    refused += 1
                key.fileobj.close()
    return {"connections_per_s": opened / seconds, "closed_per_s": closed / seconds, "reset_per_s": refused / seconds}


def ask(bootstrap: str, client_id: str, seconds: float, topic: str, rate: float) -> dict[str, float]:
    """Send `rate` small produce requests per second, evenly, and measure each."""
    frame = protocol.produce(topic, 0, protocol.batch(1, 100))
    times = []
    with socket.create_connection(_address(bootstrap), 10, source_address=(_OTHER, 0)) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reader = sock.makefile("rb")
        begin = time.perf_counter()
        for number in range(int(seconds * rate)):
            time.sleep(max(0.0, begin + number / rate - time.perf_counter()))
            sent = time.perf_counter()
            sock.sendall(frame)
            reader.read(struct.unpack(">i", reader.read(4))[0])
            times.append((time.perf_counter() - sent) * 1000)
    times.sort()
    return {"p50_ms": times[len(times) // 2], "p99_ms": times[len(times) * 99 // 100], "max_ms": times[-1]}


def _address(bootstrap: str) -> tuple[str, int]:
    host, _, port = bootstrap.rpartition(":")
    return host, int(port)


_KINDS: dict[str, Callable[[str, str, float, str, float], dict[str, float]]] = {
    "produce": produce,
    "consume": consume,
    "ignore": ignore,
    "connect": connect,
    "ask": ask,
}


def main() -> None:
    kind, bootstrap, client_id, seconds, topic, rate = sys.argv[1:]
    print(json.dumps(_KINDS[kind](bootstrap, client_id, float(seconds), topic, float(rate))))


if __name__ == "__main__":
    main()
