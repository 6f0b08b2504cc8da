"""Commands of `kraft` that messages name are printed so that they ask the cluster that the message is about."""

import re
import shlex
from collections.abc import Iterator
from typing import Final

from broker.cli.grammar.given_settings import GivenSettings
from broker.client.config import is_secret

# The commands that ask a cluster. `kraft cluster start` makes one.
_PRINTED: Final = re.compile(
    "`kraft (?=(?:acls|bench|cluster(?! start)|configs|consume|elect|features|groups|log-dirs|produce|quorum|quotas|"
    "reassign|share-groups|spark (?:load|replay|stats)|tokens|topics|transactions|users)[ `])"
)


def for_same_cluster(text: str, given: GivenSettings) -> str:
    """The text, with the cluster options of this command line in each command that it names.

    Without them, a command that is typed as printed would ask another cluster. Variables and the current context
    hold for the next command, too.
    """
    options = shlex.join(_options(given))
    return _PRINTED.sub(lambda match: f"{match[0]}{options} ", text) if options else text


def _options(given: GivenSettings) -> Iterator[str]:
    if given.bootstrap_servers is not None:
        yield from ("-b", given.bootstrap_servers)
    if given.command_config is not None:
        yield from ("--command-config", given.command_config)
    if given.context is not None:
        yield from ("--context", given.context)
    for each in given.properties:
        key, _, _ = each.partition("=")
        yield from ("-X", f"{key}=..." if is_secret(key.strip()) else each)
