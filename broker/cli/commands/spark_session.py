"""Shared parts of the `kraft spark` commands: the options for Spark, the session, and the report of a job's failure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from broker.cli.grammar import ClusterCommand, CommandFailed, Exit, Invocation
from broker.cli.grammar.clients import configs_for
from broker.cli.grammar.settings import ClusterSettings, parse_settings
from broker.client.config import ClientConfig
from broker.spark.java import NoJava

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

F = TypeVar("F", bound=Callable[..., Any])

_EXTRA: Final = "pip install 'kraft[spark]'"
# A failure in the JVM comes with its whole stack; the first lines say what it is.
_MESSAGE_LINES: Final = 3


class SparkCommand(ClusterCommand):
    """A command that runs a Spark job over the records of a cluster. Its function is not async."""

    def _run(self, call: Any) -> None:
        call()


def spark_options(command: F) -> F:
    """`--master` and `--conf`, which say where Spark runs and how."""
    master = click.option(
        "--master",
        metavar="URL",
        help="Where Spark runs: spark://host:port, k8s://..., yarn, local[4]; by default on all cores of this machine.",
    )
    conf = click.option(
        "--conf", "confs", multiple=True, metavar="KEY=VALUE", help="A config of Spark; may be repeated."
    )
    return master(conf(command))


@contextmanager
def spark_session(
    invocation: Invocation, name: str, master: str | None, confs: Sequence[str]
) -> "Iterator[SparkSession]":
    """A session for one job. Raises CommandFailed for whatever ends the job."""
    try:
        from pyspark.errors import PySparkException

        from broker.spark.jobs.results import JobFailed
        from broker.spark.session import running_session
    except ImportError as error:
        raise CommandFailed(f"Spark is not installed ({error}): {_EXTRA}", Exit.USAGE) from error
    configs = parse_settings(confs)
    try:
        with running_session(name, master=master, configs=configs, report=invocation.printer.note) as spark:
            yield spark
    except (JobFailed, NoJava) as error:
        raise CommandFailed(str(error)) from error
    except PySparkException as error:
        raise CommandFailed(" ".join(str(error).strip().splitlines()[:_MESSAGE_LINES])) from error


def source_options(settings: ClusterSettings, client: type[ClientConfig]) -> Mapping[str, str]:
    """The cluster as options of `format("kraft")`, with the configs that this kind of client has."""
    configs = configs_for(client, settings.configs)
    return {
        f"kafka.{key}": value for key, value in {**configs, "bootstrap.servers": settings.bootstrap_servers}.items()
    }
