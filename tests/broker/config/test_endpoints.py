import pytest

from broker.config import read_config
from broker.config.endpoints import Listener, parse_listeners
from metadata.configuration import InvalidConfig
from metadata.protocol import SecurityProtocol

PLAINTEXT = {"A": SecurityProtocol.PLAINTEXT, "B": SecurityProtocol.SSL, "CONTROLLER": SecurityProtocol.PLAINTEXT}
# A minimal file; every test adds or changes keys.
NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
}


def properties(**changes: str | None) -> bytes:
    texts = NODE | {name.replace("_", "."): text for name, text in changes.items()}
    return "\n".join(f"{name}={text}" for name, text in texts.items() if text is not None).encode()


def test_listeners_are_names_hosts_and_ports() -> None:
    assert parse_listeners(" a://host-1.example:9092 , B://[::1]:0,CONTROLLER://:9093", PLAINTEXT) == (
        Listener("A", "host-1.example", 9092, SecurityProtocol.PLAINTEXT),
        Listener("B", "::1", 0, SecurityProtocol.SSL),
        Listener("CONTROLLER", "", 9093, SecurityProtocol.PLAINTEXT),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A:9092", "Error creating broker listeners from 'A:9092': Unable to parse A:9092 to a broker endpoint"),
        ("A://h:x", "Error creating broker listeners from 'A://h:x': Unable to parse A://h:x to a broker endpoint"),
        ("X://h:1", "Error creating broker listeners from 'X://h:1': No security protocol defined for listener X"),
        ("A://h:65536", "Error creating broker listeners from 'A://h:65536': port out of range:65536"),
        ("A://h:-1", "Error creating broker listeners from 'A://h:-1': port out of range:-1"),
        ("A://h:1,a://h:2", "Each listener must have a different name, listeners: A://h:1,a://h:2"),
    ],
)
def test_invalid_listeners_are_refused_with_kafkas_messages(text: str, message: str) -> None:
    with pytest.raises(InvalidConfig) as raised:
        parse_listeners(text, PLAINTEXT)
    assert raised.value.message == message


def test_combined_node_separates_controller_listeners() -> None:
    endpoints = read_config(properties()).endpoints
    assert [each.name for each in endpoints.broker_listeners] == ["PLAINTEXT"]
    assert [each.name for each in endpoints.controller_listeners] == ["CONTROLLER"]
    assert endpoints.advertised == endpoints.listeners
    assert endpoints.inter_broker_listener_name == "PLAINTEXT"


def test_clients_get_the_advertised_listeners() -> None:
    endpoints = read_config(properties(advertised_listeners="PLAINTEXT://public:19092")).endpoints
    assert [(each.host, each.port) for each in endpoints.advertised_broker_listeners] == [("public", 19092)]
    assert [each.port for each in endpoints.advertised_controller_listeners] == [9093]
    assert [each.port for each in endpoints.listeners] == [9092, 9093]


def test_several_listeners_may_use_port_0() -> None:
    config = read_config(overrides=["listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"])
    assert [listener.port for listener in config.endpoints.listeners] == [0, 0]


def test_ipv4_and_ipv6_may_share_a_port() -> None:
    mapping = "A:PLAINTEXT,B:PLAINTEXT,CONTROLLER:PLAINTEXT"
    config = read_config(
        properties(
            listeners="A://127.0.0.1:9092,B://[::1]:9092,CONTROLLER://:9093",
            listener_security_protocol_map=mapping,
            inter_broker_listener_name="A",
        )
    )
    assert [listener.port for listener in config.endpoints.broker_listeners] == [9092, 9092]


def test_listener_named_after_a_protocol_uses_it() -> None:
    config = read_config(
        properties(
            listeners="SSL://:9094,CONTROLLER://:9093",
            listener_security_protocol_map="SSL:SSL,CONTROLLER:PLAINTEXT",
            security_inter_broker_protocol="SSL",
        )
    )
    assert config.endpoints.broker_listeners[0].security_protocol is SecurityProtocol.SSL
    assert config.endpoints.inter_broker_security_protocol is SecurityProtocol.SSL


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9092"},
            "Each listener must have a different port, listeners: PLAINTEXT://:9092,CONTROLLER://:9092",
        ),
        (
            {"listeners": "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.2:1"},
            "If you have two listeners on the same port then one needs to be IPv4 and the other IPv6, listeners: "
            "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.2:1, port: 1",
        ),
        (
            {"advertised_listeners": "PLAINTEXT://0.0.0.0:9092"},
            "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address.",
        ),
        (
            {"inter_broker_listener_name": "INTERNAL"},
            "Listener with name INTERNAL defined in inter.broker.listener.name not found in "
            "listener.security.protocol.map.",
        ),
        (
            {"inter_broker_listener_name": "PLAINTEXT", "security_inter_broker_protocol": "PLAINTEXT"},
            "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.",
        ),
        (
            {"listeners": "CONTROLLER://:9093"},
            "There must be at least one broker advertised listener. Perhaps all listeners appear in "
            "controller.listener.names?",
        ),
        (
            {"controller_listener_names": "OTHER"},
            "Error creating broker listeners from 'PLAINTEXT://:9092,CONTROLLER://:9093': No security protocol defined "
            "for listener CONTROLLER",
        ),
        (
            {"listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,CONTROLLER:NOISE"},
            "Invalid security protocol `NOISE` defined in listener.security.protocol.map",
        ),
        (
            {"process_roles": "broker"},
            "controller.listener.names must not contain a value appearing in the 'listeners' configuration when "
            "running KRaft with just the broker role",
        ),
        (
            {"process_roles": "controller"},
            "The listeners config must only contain KRaft controller listeners from controller.listener.names when "
            "process.roles=controller",
        ),
        (
            {"early_start_listeners": "NOPE"},
            "early.start.listeners contains listener NOPE, but this is not contained in listeners or "
            "controller.listener.names",
        ),
        (
            {"security_inter_broker_protocol": "SSL"},
            "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid options "
            "based on currently configured listeners are PLAINTEXT",
        ),
    ],
)
def test_conflicting_listeners_are_refused(changes: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidConfig) as raised:
        read_config(properties(**changes))
    assert raised.value.message == message
