"""SyncAdmin with a node."""

import gc
import inspect
from concurrent.futures import ThreadPoolExecutor

import pytest

from broker.client import Admin, ClosedError, ConfigError, KafkaError, NewTopic, SyncAdmin, TimedOut
from broker.wire.errors import ErrorCode
from jepsen.processes.ports import free_ports


def _methods(cls: type) -> dict[str, object]:
    return {
        name: function
        for name, function in inspect.getmembers(cls, inspect.isfunction)
        if not name.startswith("_") and inspect.iscoroutinefunction(inspect.unwrap(function))
    }


def test_every_async_method_of_admin_has_a_blocking_one_with_equal_parameters_and_documentation() -> None:
    asynchronous, blocking = _methods(Admin), _methods(SyncAdmin)
    assert blocking.keys() == asynchronous.keys()
    for name, method in asynchronous.items():
        assert inspect.signature(blocking[name]) == inspect.signature(method), name
        assert blocking[name].__doc__ == method.__doc__, name
        assert not inspect.iscoroutinefunction(blocking[name]), name


def test_both_take_the_same_settings() -> None:
    asynchronous = dict(inspect.signature(Admin).parameters)
    del asynchronous["environment"]  # only for simulations, in which nothing blocks
    assert asynchronous == dict(inspect.signature(SyncAdmin).parameters)


def test_calls_return_values_and_raise_errors(bootstrap: str) -> None:
    with SyncAdmin(bootstrap) as admin:
        created = admin.create_topics([NewTopic("values", 2)]).raise_first()
        assert created["values"].num_partitions == 2
        with pytest.raises(KafkaError) as raised:
            admin.create_topics([NewTopic("values", 2)]).raise_first()
        assert raised.value.code == ErrorCode.TOPIC_ALREADY_EXISTS
        with pytest.raises(KafkaError):
            admin.unregister_broker(99)


def test_config_errors_are_raised_by_the_constructor() -> None:
    with pytest.raises(ConfigError, match=r"did you mean default\.api\.timeout\.ms"):
        SyncAdmin("localhost:9092", config={"default.api.timeout": 5})
    with pytest.raises(ConfigError, match="not both"):
        SyncAdmin("localhost:9092", bootstrap_controllers="localhost:9093")
    with pytest.raises(ConfigError, match="no server"):
        SyncAdmin()


def test_a_cluster_that_cannot_be_reached_is_a_timeout() -> None:
    (port,) = free_ports(1)
    with SyncAdmin(f"127.0.0.1:{port}") as admin, pytest.raises(TimedOut, match="no broker can be reached"):
        admin.list_topics(timeout_ms=1_000)


def test_threads_share_a_client(bootstrap: str) -> None:
    names = [f"shared-{number}" for number in range(16)]
    with SyncAdmin(bootstrap) as admin, ThreadPoolExecutor(8) as threads:
        for created in threads.map(lambda name: admin.create_topics([NewTopic(name, 1)]), names):
            created.raise_first()
        assert set(names) <= {topic.name for topic in admin.list_topics()}


def test_a_closed_client_says_so(bootstrap: str) -> None:
    admin = SyncAdmin(bootstrap)
    admin.list_topics()
    admin.close()
    admin.close()
    with pytest.raises(ClosedError, match="open a new one"):
        admin.list_topics()


def test_a_client_that_is_dropped_closes_its_connections(bootstrap: str) -> None:
    admin = SyncAdmin(bootstrap)
    admin.list_topics()
    hosted = admin._hosted
    del admin
    gc.collect()
    assert hosted._closed.wait(10)
