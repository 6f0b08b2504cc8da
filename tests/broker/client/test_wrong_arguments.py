"""Wrong arguments are refused at the call, by every public call, and concern no other client of the process."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import trio
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from broker.client import (
    ClientError,
    ClientFailed,
    KafkaError,
    SyncConsumer,
    SyncProducer,
    TopicPartition,
)
from tests.support.client_calls import (
    CLIENTS,
    Call,
    Wrong,
    config_keys,
    kind_of,
    public_calls,
    valid_arguments,
    waits_for_ever,
    wrong_values,
)
from tests.support.node_process import NodeProcess

# A call that takes longer does not end at all.
HANG_S = 30
EXPECTED = (TypeError, ValueError, ClientError, KafkaError, Wrong)
QUICK: dict[str, Any] = {"request_timeout_ms": 300, "retry_backoff_ms": 10}
OF_KIND: dict[str, dict[str, Any]] = {
    "Producer": {"max_block_ms": 300, "linger_ms": 0, "delivery_timeout_ms": 600},
    "Consumer": {"default_api_timeout_ms": 300, "group_id": "calls"},
    "ShareConsumer": {"default_api_timeout_ms": 300, "group_id": "calls", "share_acknowledgement_mode": "explicit"},
    "Admin": {"default_api_timeout_ms": 300},
}

examples = settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=8,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    node = NodeProcess(tmp_path_factory.mktemp("node") / "data", {"auto.create.topics.enable": "true"})
    node.start()
    yield node.bootstrap
    node.stop()


@pytest.fixture(scope="module")
def witness(bootstrap: str) -> Iterator[Callable[[], None]]:
    """Uses another client of the process."""
    with SyncProducer(bootstrap, linger_ms=0) as producer, SyncConsumer(bootstrap) as consumer:

        def use() -> None:
            delivery = producer.send_soon("witness", b"value")
            offset = delivery.result(timeout_s=HANG_S).offset
            witnessed = TopicPartition("witness", 0)
            assert consumer.end_offsets([witnessed])[witnessed] == offset + 1

        use()
        yield use


def within(seconds: float, function: Callable[[], None]) -> None:
    """Runs a function in a thread, and raises what it raises. Fails if it does not end in time."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            function()
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "the call does not end"
    if errors:
        raise errors[0]


@contextmanager
def refusal(arguments: dict[str, Any]) -> Iterator[None]:
    """Takes the errors that a call may raise. A failure of the client is none."""
    try:
        yield
    except ClientFailed as failure:
        raise AssertionError(f"the client failed: {arguments}") from failure
    except EXPECTED:
        pass


def open_client(call: Call, bootstrap: str) -> Any:
    settings = QUICK | OF_KIND[kind_of(call.client)]
    if call.client.__name__.endswith("Producer") and "transaction" in call.name:
        settings |= {"transactional_id": f"calls-{call}"}
    return call.client(bootstrap, **settings)


def use_blocking(call: Call, bootstrap: str, arguments: dict[str, Any]) -> None:
    with open_client(call, bootstrap) as client, refusal(arguments):
        getattr(client, call.name)(**arguments)


def use_async(call: Call, bootstrap: str, arguments: dict[str, Any]) -> None:
    async def use() -> None:
        async with open_client(call, bootstrap) as client:
            with refusal(arguments):
                result = getattr(client, call.name)(**arguments)
                if hasattr(result, "__await__"):
                    await result

    if call.client.__name__.startswith("Asyncio"):
        asyncio.run(use())
    else:
        trio.run(use)


def construct(client: type[Any], arguments: dict[str, Any]) -> None:
    with refusal(arguments):
        opened = client(**arguments)
        if client.__name__.startswith("Sync"):
            opened.close()


@pytest.mark.parametrize("call", public_calls(), ids=str)
@examples
@given(data=st.data())
def test_a_wrong_argument_is_refused_and_other_clients_go_on(
    call: Call, data: st.DataObject, bootstrap: str, witness: Callable[[], None]
) -> None:
    parameter = data.draw(st.sampled_from(call.parameters))
    value = data.draw(wrong_values())
    assume(not waits_for_ever(parameter, value))
    arguments = valid_arguments(call) | {parameter: value}
    if call.name == "__init__":
        within(HANG_S, lambda: construct(call.client, arguments))
    elif call.client.__name__.startswith("Sync"):
        within(HANG_S, lambda: use_blocking(call, bootstrap, arguments))
    else:
        within(HANG_S, lambda: use_async(call, bootstrap, arguments))
    within(HANG_S, witness)


@pytest.mark.parametrize("client", [each for each in CLIENTS if kind_of(each) == each.__name__])
@settings(examples, max_examples=100)
@given(data=st.data())
def test_a_wrong_value_of_a_config_key_is_refused_by_the_constructor(client: type[Any], data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(config_keys(client)))
    dotted = key.replace("_", ".")
    construct(client, {"bootstrap_servers": "localhost:1", "config": {dotted: data.draw(wrong_values())}})
