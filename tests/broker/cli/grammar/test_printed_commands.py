"""Commands in messages name the cluster that the command line names."""

import pytest

from broker.cli.grammar.command import ClusterCommand
from broker.cli.grammar.given_settings import GivenSettings
from broker.cli.grammar.printed_commands import for_same_cluster
from broker.cli.grammar.root import kraft
from tests.support.command_output import leaf_commands

SERVERS = GivenSettings(bootstrap_servers="host1:9092,host2:9092")


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("`kraft elect`: see", "`kraft -b host1:9092,host2:9092 elect`: see"),
        (
            "`kraft cluster drain 4`, then `kraft cluster unregister 4`",
            "`kraft -b host1:9092,host2:9092 cluster drain 4`, then "
            "`kraft -b host1:9092,host2:9092 cluster unregister 4`",
        ),
        (
            "`kraft quorum --command-config <its server.properties> add-controller`",
            "`kraft -b host1:9092,host2:9092 quorum --command-config <its server.properties> add-controller`",
        ),
        *[
            (text, text)
            for text in ("`kraft start s.properties`", "`kraft cluster start`", "`kraft random-uuid`", "kraft elect")
        ],
    ],
)
def test_commands_that_ask_a_cluster_get_the_servers_of_the_command_line(text: str, printed: str) -> None:
    assert for_same_cluster(text, SERVERS) == printed
    assert for_same_cluster(text, GivenSettings()) == text


def test_all_cluster_options_are_repeated_as_a_shell_takes_them() -> None:
    given = GivenSettings("host:1", "my client.properties", "staging", ("client.id=a b",))
    assert for_same_cluster("`kraft elect`", given) == (
        "`kraft -b host:1 --command-config 'my client.properties' --context staging -X 'client.id=a b' elect`"
    )


def test_secrets_are_not_repeated() -> None:
    given = GivenSettings(properties=("sasl.password=secret", "sasl.username=alice"))
    printed = "`kraft -X sasl.password=... -X sasl.username=alice elect`"
    assert for_same_cluster("`kraft elect`", given) == printed


def test_every_command_that_asks_a_cluster_is_printed_with_it() -> None:
    asking = {path for path, command in leaf_commands(kraft) if isinstance(command, ClusterCommand)}
    printed = {
        path
        for path, _ in leaf_commands(kraft)
        if for_same_cluster(f"`kraft {' '.join(path)}`", SERVERS) != f"`kraft {' '.join(path)}`"
    }
    assert printed == asking
