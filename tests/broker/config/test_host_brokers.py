"""The configurations of several brokers of one host, which follow from one file."""

import os

import pytest

from broker.cli.node_config import read_host, read_node_config
from broker.config import KafkaConfig
from metadata.configuration import InvalidConfig


def brokers(*overrides: str) -> list[KafkaConfig]:
    return [broker.config for broker in read_host(None, ["log.dirs=/a,/b", *overrides]).brokers]


def listeners(config: KafkaConfig) -> list[str]:
    return [f"{each.name}://{each.host}:{each.port}" for each in config.endpoints.listeners]


def test_further_brokers_have_the_next_ids_directories_of_their_own_and_no_vote() -> None:
    first, second, third = brokers("kraft.brokers=3", "node.id=7", "metadata.log.dir=/m")
    assert [each.node_id for each in (first, second, third)] == [7, 8, 9]
    assert [each.process_roles for each in (first, second, third)] == [
        ("broker", "controller"),
        ("broker",),
        ("broker",),
    ]
    assert first.log_directories == ("/a/broker-7", "/b/broker-7")
    assert third.log_directories == ("/a/broker-9", "/b/broker-9")
    assert third.metadata_directory == "/m/broker-9"
    assert first.is_sole_voter
    assert second.quorum_bootstrap_servers == first.quorum_bootstrap_servers == (("localhost", 9093),)


def test_cordoned_directories_are_those_of_each_broker() -> None:
    first, second = brokers("kraft.brokers=2", "node.id=7", "cordoned.log.dirs=/b")
    assert (first.cordoned_log_dirs, second.cordoned_log_dirs) == (("/b/broker-7",), ("/b/broker-8",))
    first, second = brokers("kraft.brokers=2", "cordoned.log.dirs=*")
    assert first.cordoned_log_dirs == second.cordoned_log_dirs == ("*",)


def test_relative_directories_are_absolute_where_they_are_cordoned_too() -> None:
    (config,) = brokers("log.dirs=a,b", "metadata.log.dir=m", "cordoned.log.dirs=b")
    here = os.getcwd()
    assert config.log_directories == (f"{here}/a", f"{here}/b")
    assert (config.metadata_directory, config.cordoned_log_dirs) == (f"{here}/m", (f"{here}/b",))


def test_ports_of_further_brokers_are_ten_above_those_of_the_one_before() -> None:
    own = "listeners=A://:9092,B://[::1]:9094,CONTROLLER://:9093,FREE://:0"
    advertised = "advertised.listeners=A://public:19092,B://[2001:db8::1]:19094,CONTROLLER://c:1,FREE://public:0"
    names = "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT,FREE:PLAINTEXT,CONTROLLER:PLAINTEXT"
    early = "early.start.listeners=CONTROLLER,B"
    first, second = brokers("kraft.brokers=2", own, advertised, names, "inter.broker.listener.name=A", early)
    assert listeners(first) == ["A://:9092", "B://::1:9094", "CONTROLLER://:9093", "FREE://:0"]
    assert listeners(second) == ["A://:9102", "B://::1:9104", "FREE://:0"]
    assert [(each.host, each.port) for each in second.endpoints.advertised] == [
        ("public", 19102),
        ("2001:db8::1", 19104),
        ("public", 0),
    ]
    assert second.early_start_listeners == "B"


def test_the_rack_of_all_brokers_is_the_given_one_or_the_id_of_the_first() -> None:
    assert [each.broker_rack for each in brokers("kraft.brokers=2", "node.id=5")] == ["5", "5"]
    assert [each.broker_rack for each in brokers("kraft.brokers=2", "broker.rack=r")] == ["r", "r"]


def test_metrics_of_each_broker_are_for_the_supervisor_alone() -> None:
    served = [each.endpoints.http for each in brokers("kraft.brokers=2", "http.listener=0.0.0.0:9404")]
    assert [None if http is None else (http.host, http.port) for http in served] == [("127.0.0.1", 0)] * 2
    assert [each.endpoints.http for each in brokers("kraft.brokers=2")] == [None, None]


def test_first_broker_keeps_the_listeners_of_the_start_if_the_file_changes() -> None:
    listeners = ["listeners=PLAINTEXT://:19092,CONTROLLER://:9093", "advertised.listeners=PLAINTEXT://public:19092"]
    host = read_host(None, ["kraft.brokers=2", *listeners])
    assert set(listeners) <= set(host.brokers[0].overrides[len(listeners) + 1 :])


def test_one_broker_is_a_node_as_without_the_config() -> None:
    (only,) = brokers("kraft.brokers=1")
    assert only.log_directories == ("/a", "/b")
    assert only.broker_rack is None


def test_commands_for_one_node_take_the_first_broker() -> None:
    assert read_node_config(None, ["kraft.brokers=2", "log.dirs=/a"]).log_directories == ("/a/broker-1",)


NAMES = "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT,CONTROLLER:PLAINTEXT"
CONTROLLER = "CONTROLLER://127.0.0.1:9093"


@pytest.mark.parametrize(
    ("first", "second", "overlap"),
    [
        ("10.0.0.1", "127.0.0.1", False),
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "", True),
        ("0.0.0.0", "127.0.0.1", True),
        ("0.0.0.0", "[::1]", False),
        ("[::]", "[::1]", True),
        ("localhost", "127.0.0.1", True),
        ("localhost", "10.0.0.1", False),
        ("host1", "HOST1", True),
        ("host1", "", True),
        ("host1", "10.0.0.1", False),
    ],
)
def test_brokers_of_a_host_may_have_a_port_in_common_on_different_addresses(
    first: str, second: str, overlap: bool
) -> None:
    """The second broker has listener A on the port that listener B of the first has."""
    for hosts in ((first, second), (second, first)):
        own = f"listeners=A://{hosts[0]}:9092,B://{hosts[1]}:9102,{CONTROLLER}"
        advertised = "advertised.listeners=A://a:9092,B://b:9102"
        overrides = ("kraft.brokers=2", NAMES, "inter.broker.listener.name=A", own, advertised)
        if overlap:
            with pytest.raises(InvalidConfig, match="A of broker 2 and B of broker 1 would both listen on port 9102"):
                brokers(*overrides)
        else:
            assert len(brokers(*overrides)) == 2


def test_brokers_of_a_host_do_not_advertise_one_address() -> None:
    """Clients of the second broker would reach the first."""
    own = f"listeners=A://:9092,B://:9192,{CONTROLLER}"
    overrides = ["kraft.brokers=2", NAMES, "inter.broker.listener.name=A", own]
    with pytest.raises(InvalidConfig, match="A of broker 2 and B of broker 1 would both be advertised at port 19102"):
        brokers(*overrides, "advertised.listeners=A://public:19092,B://Public:19102")
    assert len(brokers(*overrides, "advertised.listeners=A://public:19092,B://private:19102")) == 2


def test_settings_that_brokers_cannot_share_are_refused() -> None:
    ports = "listeners=PLAINTEXT://:9092,X://:9102,CONTROLLER://:9093"
    names = "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,X:PLAINTEXT,CONTROLLER:PLAINTEXT"
    refused = {
        ("kraft.brokers=0",): "Value must be at least 1",
        ("kraft.brokers=65",): "Value must be no more than 64",
        ("kraft.brokers=2", ports, names): "PLAINTEXT of broker 2 and X of broker 1 would both listen on port 9102",
        ("kraft.brokers=2", "http.listener=:9102"): "PLAINTEXT of broker 2 and HTTP of the supervisor",
        ("kraft.brokers=2", "listeners=PLAINTEXT://:65530,CONTROLLER://:9093"): "would have port 65540",
        ("kraft.brokers=2", "listeners=PLAINTEXT://:0,CONTROLLER://:0"): "listener CONTROLLER needs a port",
        ("kraft.brokers=2", "process.roles=controller", "listeners=CONTROLLER://:9093"): "needs the role broker",
    }
    for overrides, message in refused.items():
        with pytest.raises(InvalidConfig, match=message):
            brokers(*overrides)
