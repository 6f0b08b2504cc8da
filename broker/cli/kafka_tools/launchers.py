"""Launchers of the tools, in a directory that a script can put first on its PATH.

pip cannot install the tools' names only where an extra is asked for, and always would shadow an installed Kafka. So
they are put into a directory of the user's choice, with and without the `.sh` of Kafka's own `bin/`.
"""

import shlex
import sys
from pathlib import Path
from typing import Final

from broker.cli.kafka_tools.tools import NAMES

_LAUNCHER: Final = """#!/bin/sh
# A launcher of `kraft kafka-tools install`.
exec {python} -P -m broker.cli.kafka_tools {name} "$@"
"""
_MARK: Final = _LAUNCHER.splitlines()[1]
_EXECUTABLE: Final = 0o755


class LauncherExists(Exception):
    """A file of that name exists and is not a launcher that this command has written."""


def install_launchers(directory: str) -> list[str]:
    """Writes a launcher for each tool and returns their names. Raises OSError, LauncherExists before it writes any."""
    target = Path(directory)
    launchers = {f"{name}{suffix}": name for name in NAMES for suffix in ("", ".sh")}
    foreign = [launcher for launcher in launchers if not _is_replaceable(target / launcher)]
    if foreign:
        raise LauncherExists(
            f"{target / foreign[0]} is not a launcher of kraft; give a directory without Kafka's tools"
        )
    target.mkdir(parents=True, exist_ok=True)
    for launcher, name in launchers.items():
        path = target / launcher
        path.write_text(_LAUNCHER.format(python=shlex.quote(sys.executable), name=name))
        path.chmod(_EXECUTABLE)
    return list(launchers)


def _is_replaceable(path: Path) -> bool:
    if not path.exists() and not path.is_symlink():
        return True
    return path.is_file() and not path.is_symlink() and _MARK.encode() in path.read_bytes()[: len(_LAUNCHER)]
