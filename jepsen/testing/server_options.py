"""The options of a test server."""

from collections.abc import Mapping
from typing import Any, Final

import attrs

LOOPBACK: Final = "127.0.0.1"


@attrs.frozen
class ServerOptions:
    """`host` and `port` are those of the control port; 0 takes a free port. `cluster` describes a first cluster, as the
    control port takes it. The server ends with its parent process, whose id is `parent`, or without one with the last
    lease of its clients. Data and logs are kept in the directory `keep_in`, or removed.
    """

    host: str = LOOPBACK
    port: int = 0
    cluster: Mapping[str, Any] | None = None
    parent: int | None = None
    keep_in: str | None = None
