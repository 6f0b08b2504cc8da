"""The first signal stops a command cleanly, a later one at once. The same signal sent twice at once counts as one."""

import trio
from trio.testing import MockClock

from broker.cli.signals import handle_signals


async def test_the_first_signal_stops_and_a_later_one_stops_at_once(autojump_clock: MockClock) -> None:
    heard: list[str] = []
    send, signals = trio.open_memory_channel[int](9)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(handle_signals, signals, lambda: heard.append("stop"), lambda: heard.append("at once"))
        send.send_nowait(2)
        send.send_nowait(15)  # as `timeout` does: to the process and to its group
        await trio.sleep(0.5)
        assert heard == ["stop"]
        send.send_nowait(2)
        await trio.sleep(0.5)
        assert heard == ["stop", "at once"]
        send.close()
