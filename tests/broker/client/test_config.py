"""Config keys as keyword arguments and as Kafka's keys."""

from collections.abc import Callable

import pytest

from broker.client import Admin, Consumer, Producer, SyncAdmin, SyncConsumer, SyncProducer
from broker.client.config import ClientConfig, read_config
from broker.client.errors import ConfigError


def test_keyword_arguments_and_kafka_keys_set_the_same_fields() -> None:
    by_key = read_config(ClientConfig, "a:1,[::1]:2", {"request.timeout.ms": "500", "client.id": "x"})
    by_name = read_config(ClientConfig, ["a:1", "[::1]:2"], settings={"request_timeout_ms": 500, "client_id": "x"})
    assert by_key == by_name
    assert by_key.bootstrap_servers == (("a", 1), ("::1", 2))
    assert by_key.retry_backoff_ms == 100


@pytest.mark.parametrize("client", [Admin, Consumer, Producer, SyncAdmin, SyncConsumer, SyncProducer])
def test_config_of_every_client_may_have_the_bootstrap_servers(client: Callable[..., object]) -> None:
    client(config={"bootstrap.servers": "a:1"})
    with pytest.raises(ConfigError, match="bootstrap"):
        client(config={"client.id": "x"})


@pytest.mark.parametrize(
    "servers",
    [
        "PLAINTEXT://a:1,plaintext://[::1]:2",
        ["PLAINTEXT://a:1", "PLAINTEXT://[::1]:2"],
        ["a:1,[::1]:2"],
        ("a:1", " [::1]:2 "),
    ],
)
def test_bootstrap_servers_may_name_the_protocol(servers: str | list[str]) -> None:
    assert read_config(ClientConfig, servers).bootstrap_servers == (("a", 1), ("::1", 2))


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL", "sasl_plaintext"])
def test_bootstrap_servers_do_not_set_the_protocol(protocol: str) -> None:
    with pytest.raises(ConfigError, match=f"give host:port, and security.protocol={protocol.upper()}"):
        read_config(ClientConfig, f"{protocol}://a:1")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("request.timeout.m", 1, r"did you mean request\.timeout\.ms\?"),
        ("request.timeout.ms", -1, "at least 0"),
        ("request.timeout.ms", "soon", "must be a number"),
        ("request.timeout.ms", True, "must be a number"),
        ("request.timeout.ms", "1_000", "must be a number"),
        ("request.timeout.ms", "1e3", "must be a number"),
        ("request.timeout.ms", "inf", "must be a number"),
        ("request.timeout.ms", "1" * 5_000, "must be a number"),
        ("request.timeout.ms", float("nan"), "must be a number"),
        ("send.buffer.bytes", 1.5, "whole number"),
        ("send.buffer.bytes", 2**31, "between -1 and 2147483647"),
        ("send.buffer.bytes", float("inf"), "whole number"),
        ("request.timeout.ms", 2**31, "at most 2147483647"),
        ("client.id", 5, "must be a string"),
        ("client.id", "x" * 40_000, "has 40000 bytes; a string has at most 32767"),
        ("client.rack", "\udc80", "cannot be written in UTF-8"),
        ("metadata.recovery.strategy", "rebotstrap", "did you mean rebootstrap"),
        ("security.protocol", "SASL", "must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ("ssl.ca.pem", 5, "ssl.ca.pem must be a string, not a int"),
        ("ssl.crl.location", "x", "lists of revoked certificates are not read"),
        ("ssl.provider", "x", "it names a Java security provider"),
        ("sasl.login.class", "x", "sasl.login.class does not apply to this client"),
        ("sasl.oauthbearer.assertion.file", "x", "does not apply to this client"),
        ("oauth.token", "x", "must be a function"),
        ("key.serializer", "org.apache.kafka.StringSerializer", "key_serializer="),
        ("bootstrap.servers", "b:2", "given twice"),
    ],
)
def test_wrong_settings_are_refused_with_advice(key: str, value: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_config(ClientConfig, "a:1", {key: value})


@pytest.mark.parametrize(
    "servers",
    [
        "",
        "host",
        "host:port",
        "host:70000",
        "host:0",
        "host:9_2",
        "host:\u0669",
        f"host:{'1' * 5_000}",
        ":9092",
        ["a:1", "b"],
    ],
)
def test_bootstrap_servers_that_are_no_addresses_are_refused(servers: str | list[str]) -> None:
    with pytest.raises(ConfigError, match="host1:9092,host2:9092"):
        read_config(ClientConfig, servers)


@pytest.mark.parametrize(
    ("servers", "message"),
    [
        ("::1:9092", "stands in brackets"),
        ("http://a:1", "is not host:port or PLAINTEXT"),
        ([b"a:1"], "list of host:port"),
    ],
)
def test_bootstrap_servers_in_another_form_are_refused(servers: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_config(ClientConfig, servers)  # type: ignore[arg-type]
