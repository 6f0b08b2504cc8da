"""Opening streams to other nodes of the quorum: each failure is one of two errors, and says why."""

import pytest
import trio

from jepsen.processes.ports import free_ports
from kraft.connecting import CONNECT_TIMEOUT_S, PeerRefused, PeerStream, connect_by_tcp, open_stream
from kraft.frames import PeerConnectionLost


async def test_refused_connection_counts_as_a_reset() -> None:
    with pytest.raises(PeerConnectionLost) as lost:
        await open_stream(connect_by_tcp, f"127.0.0.1:{free_ports(1)[0]}")
    assert lost.value.was_reset


@pytest.mark.parametrize("address", ["", "localhost", "localhost:", "localhost:port"])
async def test_invalid_address_is_a_lost_connection(address: str) -> None:
    with pytest.raises(PeerConnectionLost) as lost:
        await open_stream(connect_by_tcp, address)
    assert not lost.value.was_reset


async def test_slow_connection_is_given_up(autojump_clock: trio.testing.MockClock) -> None:
    async def connect(host: str, port: int) -> PeerStream:
        await trio.sleep_forever()
        raise AssertionError

    with pytest.raises(PeerConnectionLost) as lost:
        await open_stream(connect, "127.0.0.1:1")
    assert not lost.value.was_reset
    assert trio.current_time() >= CONNECT_TIMEOUT_S


async def test_refusal_is_passed_on() -> None:
    async def connect(host: str, port: int) -> PeerStream:
        raise PeerRefused("a wrong password")

    with pytest.raises(PeerRefused, match="a wrong password"):
        await open_stream(connect, "127.0.0.1:1")
