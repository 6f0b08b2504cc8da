"""`kraft quorum`: look at the controllers' quorum and change its voters, as `kafka-metadata-quorum` does (KIP-853)."""

import argparse
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final

import trio

from broker.cli.admin_connection import (
    BROKERS,
    CONTROLLERS,
    REQUEST_TIMEOUT_MS,
    check,
    connected,
    connected_to_controller,
    describe_cluster,
    parse_servers,
)
from broker.cli.node_config import read_node_config
from broker.cli.quorum_description import NoLeader, replication_lines, status_lines
from broker.cli.refusals import print_refusals
from broker.client import Connection, ConnectionLost
from broker.config import KafkaConfig
from broker.storage.meta_properties import MetaPropertiesError, read_meta_properties
from broker.wire.api.add_raft_voter import AddRaftVoterRequest, Listener
from broker.wire.api.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    RequestedPartition,
    RequestedTopic,
)
from broker.wire.api.remove_raft_voter import RemoveRaftVoterRequest
from broker.wire.errors import KafkaError
from broker.wire.uuids import decode_uuid, encode_uuid
from kraft.env import real_env
from metadata.configuration import ConfigError

METADATA_TOPIC: Final = "__cluster_metadata"


class Refused(Exception):
    """The command cannot be carried out as it was given; the message is for the operator."""


_REFUSALS: Final = (Refused, NoLeader, ConnectionLost, KafkaError, ConfigError, MetaPropertiesError, OSError)


def main(argv: Sequence[str]) -> int:
    options = _parser().parse_args(argv)
    exit_code = 0
    try:
        trio.run(options.run, options)
    except* _REFUSALS as group:
        print_refusals(group)
        exit_code = 1
    return exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="kraft quorum", description="The controllers' quorum.")
    servers = parser.add_mutually_exclusive_group(required=True)
    servers.add_argument("--bootstrap-server", metavar="host:port,...", help="brokers of the cluster")
    servers.add_argument("--bootstrap-controller", metavar="host:port,...", help="controllers of the cluster")
    parser.add_argument("--command-config", metavar="FILE", help="of add-controller: the new one's server.properties")
    commands = parser.add_subparsers(dest="command", required=True)
    describe = commands.add_parser("describe", help="show the quorum")
    describe.add_argument("--status", action="store_true", help="who leads, who votes, how far behind they are")
    describe.add_argument("--replication", action="store_true", help="how far each replica is")
    describe.add_argument("--human-readable", action="store_true", help="with --replication: times as how long ago")
    describe.set_defaults(run=_describe)
    add = commands.add_parser("add-controller", help="have a controller vote that runs, and does not vote yet")
    add.set_defaults(run=_add_controller)
    remove = commands.add_parser("remove-controller", help="take a controller's vote")
    remove.add_argument("-i", "--controller-id", type=int, required=True, metavar="ID")
    remove.add_argument("-d", "--controller-directory-id", required=True, metavar="ID")
    remove.set_defaults(run=_remove_controller)
    for command in (add, remove):
        command.add_argument("--dry-run", action="store_true", help="say what would be done, and do not do it")
    return parser


def _connected(options: argparse.Namespace) -> AbstractAsyncContextManager[Connection]:
    if options.bootstrap_server is not None:
        return connected(parse_servers(options.bootstrap_server))
    return connected_to_controller(parse_servers(options.bootstrap_controller))


async def _describe(options: argparse.Namespace) -> None:
    if options.status and options.replication:
        raise Refused("Only one of --status or --replication should be specified with describe sub-command")
    if not (options.status or options.replication):
        raise Refused("One of --status or --replication must be specified with describe sub-command")
    if options.status and options.human_readable:
        raise Refused("The option --human-readable is only supported along with --replication")
    async with _connected(options) as connection:
        quorum = await _describe_quorum(connection)
        cluster = await describe_cluster(connection, CONTROLLERS if options.bootstrap_server is None else BROKERS)
    if options.status:
        lines = status_lines(cluster.cluster_id, quorum)
    else:
        now_ms = int(real_env(lambda kind, /, **fields: None).wall() * 1000)
        lines = replication_lines(quorum, now_ms=now_ms if options.human_readable else None)
    print("\n".join(lines))


async def _describe_quorum(connection: Connection) -> DescribeQuorumResponse:
    topic = RequestedTopic(topic_name=METADATA_TOPIC, partitions=[RequestedPartition(partition_index=0)])
    response = await connection.call(DescribeQuorumRequest(topics=[topic]), 2)
    assert isinstance(response, DescribeQuorumResponse), "the answer to what was asked"
    check(response.error_code, response.error_message)
    partition = response.topics[0].partitions[0]
    check(partition.error_code, partition.error_message)
    return response


async def _add_controller(options: argparse.Namespace) -> None:
    if options.command_config is None:
        raise Refused(
            "You must supply the configuration file of the controller you are adding when using add-controller."
        )
    config = read_node_config(options.command_config, ())
    if not config.is_controller:
        raise Refused(
            "process.roles did not contain 'controller' in configuration file. "
            "Is this a valid controller configuration file?"
        )
    request = _add_request(config)
    if not options.dry_run:
        async with _connected(options) as connection:
            response = await connection.call(request, 0)
            check(response.error_code, response.error_message)
    what = "DRY RUN of adding" if options.dry_run else "Added"
    directory_id = encode_uuid(request.voter_directory_id)
    endpoints = ", ".join(map(_shown, request.listeners))
    print(f"{what} controller {config.node_id} with directory id {directory_id} and endpoints: {endpoints}")


def _add_request(config: KafkaConfig) -> AddRaftVoterRequest:
    return AddRaftVoterRequest(
        cluster_id=None,
        timeout_ms=REQUEST_TIMEOUT_MS,
        voter_id=config.node_id,
        voter_directory_id=_directory_id(config),
        listeners=[
            Listener(name=each.name, host=each.host or "localhost", port=each.port)
            for each in config.endpoints.advertised_controller_listeners
        ],
    )


async def _remove_controller(options: argparse.Namespace) -> None:
    controller_id = options.controller_id
    if controller_id < 0:
        raise Refused(f"Invalid negative --controller-id: {controller_id}")
    try:
        directory_id = decode_uuid(options.controller_directory_id)
    except ValueError as error:
        raise Refused(f"Failed to parse --controller-directory-id: {error}") from error
    if not options.dry_run:
        request = RemoveRaftVoterRequest(cluster_id=None, voter_id=controller_id, voter_directory_id=directory_id)
        async with _connected(options) as connection:
            response = await connection.call(request, 0)
            check(response.error_code, response.error_message)
    what = "DRY RUN of removing" if options.dry_run else "Removed"
    print(f"{what} KRaft controller {controller_id} with directory id {encode_uuid(directory_id)}")


def _directory_id(config: KafkaConfig) -> bytes:
    """The id of the directory with the controller's metadata log."""
    directory = config.metadata_log_dir
    properties = read_meta_properties(real_env(lambda kind, /, **fields: None).disk, directory)
    if properties is None:
        raise Refused(f"Unable to read meta.properties from {directory}")
    if properties.directory_id is None:
        raise Refused(f"No directory id found in {directory}")
    return properties.directory_id


def _shown(listener: Listener) -> str:
    host = f"[{listener.host}]" if ":" in listener.host else listener.host
    return f"{listener.name}://{host}:{listener.port}"
