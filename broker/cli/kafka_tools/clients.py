"""The clients of the tools, from the options and the properties files that name brokers and configs."""

import sys
from collections.abc import Iterable, Mapping

import attrs

from broker.cli.kafka_tools.files import read_bytes
from broker.cli.kafka_tools.java_order import hash_map_order
from broker.cli.kafka_tools.options import Options, ToolExit
from broker.cli.printing import print_text
from broker.client.admin import Admin, AdminConfig
from broker.client.config import ClientConfig
from broker.config.properties import parse_properties


def open_admin(options: Options, *, config_option: str = "command-config") -> Admin:
    """An Admin of the brokers or controllers that the options name. Raises ToolExit, ConfigError."""
    properties = command_config(options, config_option)
    if "bootstrap-server" in options:
        return admin_of_brokers(options.value("bootstrap-server"), properties)
    return _admin_of_controllers(options.value("bootstrap-controller"), properties)


def admin_of(brokers: str | None, controllers: str | None, properties: Mapping[str, str]) -> Admin:
    """An Admin of the brokers, or of the controllers where no brokers are given. Raises ConfigError."""
    if brokers is not None:
        return admin_of_brokers(brokers, properties)
    assert controllers is not None, "the tool has checked that one of both is given"
    return _admin_of_controllers(controllers, properties)


def _admin_of_controllers(bootstrap_controllers: str, properties: Mapping[str, str]) -> Admin:
    return Admin(config={**_admin_configs(properties), "bootstrap.controllers": bootstrap_controllers})


def admin_of_brokers(bootstrap_servers: str, properties: Mapping[str, str]) -> Admin:
    """An Admin of these brokers, with the configs of a properties file. Raises ConfigError."""
    return Admin(bootstrap_servers, config=_admin_configs(properties))


def _admin_configs(properties: Mapping[str, str]) -> dict[str, object]:
    configs = client_configs(AdminConfig, properties)
    return {key: value for key, value in configs.items() if key not in ("bootstrap.servers", "bootstrap.controllers")}


def check_bootstrap(options: Options) -> None:
    """Checks that either brokers or controllers are given. Raises UsageFailure."""
    if "bootstrap-server" in options and "bootstrap-controller" in options:
        raise options.failure("You cannot specify both --bootstrap-controller and --bootstrap-server.")
    if "bootstrap-server" not in options and "bootstrap-controller" not in options:
        raise options.failure("You must specify either --bootstrap-controller or --bootstrap-server.")


def command_config(options: Options, name: str = "command-config") -> dict[str, str]:
    """The configs in the file of --command-config; empty without the option. Raises ToolExit."""
    return read_properties(options.value(name)) if name in options else {}


def read_properties(path: str) -> dict[str, str]:
    """A properties file. Raises ToolExit."""
    try:
        return parse_properties(read_bytes(path))
    except ValueError as error:
        raise ToolExit(1, f"{path} cannot be read: {error}") from error


def given_group_id(options: Options, config_option: str, *configs: Mapping[str, str]) -> str | None:
    """The group id of --group and of the configs, which --consumer-property and `config_option` have given.

    None without any. Raises UsageFailure if they differ.
    """
    given = [options.value("group"), *(each.get("group.id") for each in configs)]
    groups = hash_map_order({group for group in given if group is not None})
    if len(groups) > 1:
        raise options.failure(
            "The group ids provided in different places (directly using '--group', via '--consumer-property', or via "
            f"'--{config_option}') do not match. Detected group ids: {', '.join(map(repr, groups))}"
        )
    return groups[0] if groups else None


def key_values(settings: Iterable[str]) -> dict[str, str]:
    """`key=value` settings; a missing value is an empty one."""
    pairs = (setting.partition("=") for setting in settings)
    return {key: value for key, _, value in pairs}


def client_configs(config_class: type[ClientConfig], configs: Mapping[str, str]) -> dict[str, object]:
    """The configs that this kind of client has. Warns of the others and leaves them out, as Kafka's clients do."""
    known = {field.name for field in attrs.fields(config_class)}
    unknown = [key for key in configs if key.replace(".", "_") not in known]
    for key in unknown:
        print_text(f"WARN The configuration '{key}' was supplied but isn't a known config.", file=sys.stderr)
    return {key: value for key, value in configs.items() if key not in unknown}
