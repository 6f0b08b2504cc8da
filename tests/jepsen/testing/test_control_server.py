"""HTTP of the control port: responses, mistakes and bounds."""

import json
import socket
from collections.abc import AsyncGenerator
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from jepsen.testing.control_client import ControlClient, ControlError, ServerEnded
from jepsen.testing.control_server import BODY_BYTES_MAX, ControlServer, Request
from jepsen.testing.errors import ActionRefused
from jepsen.testing.server_options import LOOPBACK


async def echo(request: Request) -> AsyncGenerator[object, None]:
    if request.path == "/mistake":
        raise ZeroDivisionError("a mistake")
    if request.path == "/refused":
        raise ActionRefused("not now")
    yield {"method": request.method, "path": request.path, "body": request.body}


async def ask(method: str, path: str, body: object = None) -> Any:
    """The answer of a server with the handler above, or the error of the client."""
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, ControlServer(echo, LOOPBACK).serve, 0, host=LOOPBACK))
        client = ControlClient(f"{LOOPBACK}:{listeners[0].socket.getsockname()[1]}")
        try:
            return await trio.to_thread.run_sync(client.request, method, path, body)
        except (ControlError, OSError) as error:
            return error
        finally:
            nursery.cancel_scope.cancel()


async def test_request_reaches_the_handler_without_its_query() -> None:
    answer = await ask("POST", "/a?b=c", {"word": "ä"})
    assert answer == {"method": "POST", "path": "/a", "body": {"word": "ä"}}


async def test_refusal_has_its_status_and_its_reason() -> None:
    error = await ask("GET", "/refused")
    assert (error.status, str(error)) == (409, "not now")


async def test_mistake_of_a_handler_is_an_answer_with_its_traceback() -> None:
    error = await ask("GET", "/mistake")
    assert error.status == 500
    assert "ZeroDivisionError: a mistake" in str(error)


async def test_body_that_is_too_large_is_refused() -> None:
    assert isinstance(await ask("POST", "/", "x" * (BODY_BYTES_MAX - len(json.dumps("")))), dict)
    error = await ask("POST", "/", "x" * BODY_BYTES_MAX)
    assert (error.status, str(error)) == (413, f"the body has more than {BODY_BYTES_MAX} bytes")


async def test_bytes_that_are_no_request_are_refused_with_400() -> None:
    for sent in (b"GET\r\n\r\n", b"\x16\x03\x01\x00\xa5\x01\x00\r\n\r\n", b"GET / HTTP/1.1\r\nno colon\r\n\r\n"):
        client, server = trio.testing.memory_stream_pair()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ControlServer(echo, LOOPBACK).serve, server)
            await client.send_all(sent)
            response = b""
            while received := await client.receive_some():
                response += received
        head, _, body = response.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 "), sent
        assert b"the request is not HTTP: " in body, sent


def test_client_says_that_the_server_has_ended() -> None:
    with socket.socket() as unused:
        unused.bind((LOOPBACK, 0))  # it does not listen
        client = ControlClient(f"{LOOPBACK}:{unused.getsockname()[1]}")
        with pytest.raises(
            ServerEnded, match=r"the test server at 127.0.0.1:\d+ has ended: it was killed, or .*GET /a"
        ):
            client.request("GET", "/a")
