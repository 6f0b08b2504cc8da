"""Bugs planted into client quotas; see `planted_bugs`."""

from typing import Any

from broker.net.stream_driver import StreamTransport
from broker.quota.client_quotas import _Meters
from broker.quota.rates import SampledRate
from broker.server.quotas import Throttling
from jepsen.workloads.connection import CLIENT_ID
from tests.support.planted_bugs import Bug, PatchedFunction, does_nothing


def _of_another_client(charge: Any) -> Any:
    """Clients of the storm use up the quota of the first client that has one. Others would only fail."""

    def wrong(meters: Any, user: str, client_id: str, amount: float, now_ms: float) -> Any:
        others = [client for client, usage in meters._by_client.items() if usage is not None]
        charged = others[0] if others and client_id != CLIENT_ID else (user, client_id)
        return charge(meters, *charged, amount, now_ms)

    return wrong


def _at_the_end(send: Any) -> Any:
    async def wrong(transport: Any, stream: Any) -> None:
        while transport._connection.throttled:
            await transport._changed.park()
        await send(transport, stream)

    return wrong


def _halved(throttle: Any) -> Any:
    return lambda throttling, session, throttle_time_ms: throttle(throttling, session, throttle_time_ms // 2)


QUOTA_BUGS: dict[str, Bug] = {
    "quota on the wrong principal": PatchedFunction(_Meters, "charge", _of_another_client),
    "throttle answer sent late": PatchedFunction(StreamTransport, "send_outgoing", _at_the_end),
    "unmuted too early": PatchedFunction(Throttling, "throttle", _halved),
    "window never resets": PatchedFunction(SampledRate, "_drop_old", does_nothing),
}
