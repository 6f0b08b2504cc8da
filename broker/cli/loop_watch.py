"""Measures for how long the event loop was held, and by what: while one task runs, no other client is served.

A thread samples the loop's thread every LOOK_S. Unless the loop waits for events, the thread sends it a probe and
samples again. The delay of the answer is how long the loop was held, and the stack at that time shows the cause. An
idle loop gets no probes, and a busy one answers some per second. Reading the clock for each request, task or turn of
the loop would cost more. After IDLE_LOOKS samples of an idle loop the thread samples every IDLE_LOOK_S only, which
saves an idle node four fifths of this CPU time; a shorter hold can then go unnoticed.
"""

import sys
import threading
import time
from types import FrameType
from typing import Final

import trio

from broker.net.connection import Connection
from broker.wire.api.names import api_name
from kraft import lazy_attrs
from kraft.env import Tracer

LOOK_S: Final = 0.05
IDLE_LOOK_S: Final = 0.25
IDLE_LOOKS: Final = 20
# The thread that looks waits so long for the interpreter, at most. Until it has it, each system call of a busy loop
# hands the interpreter over and takes it back: with Python's 5 ms, a tenth of the time would pass like that.
SWITCH_S: Final = 0.0005
# A loop that is held for 100 ms answers a probe as late as this, or later: it was sent at the first look.
LATE_S: Final = 0.1 - LOOK_S
# With less of the time on the processor than this, the function that ran need not be the cause.
_WORKING_PART: Final = 0.1
_WAITING: Final = "a wait for a processor, as on a busy machine, or for the kernel, during"
# The function of Trio in which an idle loop waits.
_IDLE: Final = "get_events"
# Functions of the node that are named, from the innermost outwards.
_FUNCTIONS_MAX: Final = 4
_PACKAGES: Final = ("broker.", "kraft.", "metadata.")


@lazy_attrs.define
class _Probe:
    """A probe: the wall time and the CPU time of the loop's thread when it was sent, and the cause of the hold."""

    sent_s: float
    cpu_s: float
    cause: str | None = None


class LoopWatch:
    """Traces `loop_held` while `run` runs: the milliseconds, how many of them on the processor, and the cause.

    The rest of the time was spent in the kernel, or the process was not scheduled.
    """

    def __init__(self, trace: Tracer) -> None:
        self._trace = trace
        self._probe: _Probe | None = None

    async def run(self) -> None:
        """Watch the loop that this runs in, until cancelled."""
        stopped = threading.Event()
        arguments = (threading.get_ident(), trio.lowlevel.current_trio_token(), stopped)
        interval_s = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_S)
        threading.Thread(target=self._watch, args=arguments, name="loop watch", daemon=True).start()
        try:
            await trio.sleep_forever()
        finally:
            stopped.set()
            sys.setswitchinterval(interval_s)

    def _watch(self, thread_id: int, token: trio.lowlevel.TrioToken, stopped: threading.Event) -> None:
        """Samples the loop. Runs in a separate thread."""
        cpu_clock = time.pthread_getcpuclockid(thread_id)
        idle_looks = 0
        while not stopped.is_set():
            time.sleep(IDLE_LOOK_S if idle_looks >= IDLE_LOOKS else LOOK_S)
            frame = sys._current_frames().get(thread_id)
            if frame is None:
                return
            probe, now_s = self._probe, time.monotonic()
            is_idle = frame.f_code.co_name == _IDLE
            idle_looks = idle_looks + 1 if is_idle else 0
            if probe is None and not is_idle:
                self._probe = _Probe(now_s, time.clock_gettime(cpu_clock))
                try:
                    token.run_sync_soon(self._answer)
                except trio.RunFinishedError:
                    return
            elif probe is not None and probe.cause is None and now_s - probe.sent_s >= LATE_S / 2:
                probe.cause = describe_stack(frame)
            del frame  # the frame keeps the function's objects alive

    def _answer(self) -> None:
        """Answers a probe. Runs in the loop."""
        probe, self._probe = self._probe, None
        assert probe is not None, "a probe is sent after the previous one was answered"
        late_s = time.monotonic() - probe.sent_s
        if late_s >= LATE_S:
            held_s, cpu_s = late_s + LOOK_S / 2, time.thread_time() - probe.cpu_s
            cause = probe.cause or "a call that ended before the stack was sampled"
            self._trace(
                "loop_held",
                milliseconds=round(held_s * 1000),
                cpu_milliseconds=round(cpu_s * 1000),
                cause=cause if cpu_s >= held_s * _WORKING_PART else f"{_WAITING} {cause}",
            )


def describe_stack(frame: FrameType) -> str:
    """Describes a thread's stack: the innermost functions of the node, and the request that they serve, if any."""
    functions: list[str] = []
    request = None
    at: FrameType | None = frame
    while at is not None:
        module = str(at.f_globals.get("__name__"))
        if module.startswith(_PACKAGES) and len(functions) < _FUNCTIONS_MAX:
            functions.append(f"{module}:{at.f_lineno} {at.f_code.co_name}")
        if at.f_code is Connection.pump.__code__:
            request = _describe_request(at)
        at = at.f_back
    where = " in ".join(functions) or f"{frame.f_globals.get('__name__')}:{frame.f_lineno} {frame.f_code.co_name}"
    return where if request is None else f"{request}: {where}"


def _describe_request(pump: FrameType) -> str | None:
    """The request in the buffer that `Connection.pump` is serving; None between two of them."""
    connection, start, size = (pump.f_locals.get(name) for name in ("self", "start", "size"))
    if not isinstance(connection, Connection) or not isinstance(start, int) or not isinstance(size, int):
        return None
    header = bytes(connection.buffer.data[start + 4 : start + 8])
    api_key, version = (int.from_bytes(header[at : at + 2], "big", signed=True) for at in (0, 2))
    return f"{api_name(api_key)} version {version} of {size:,} bytes from {connection.peer_host}"
