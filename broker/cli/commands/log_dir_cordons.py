"""Changes of `cordoned.log.dirs`, which keeps new replicas out of log directories of a broker (KIP-1066)."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

import trio

from broker.cli.grammar import CommandFailed, Exit
from broker.client.admin import (
    Admin,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    LogDir,
)

CORDONED: Final = "cordoned.log.dirs"
# How long a broker and the controllers may take for a changed cordon: some heartbeats.
CORDON_S: Final = 30.0
_ALL: Final = "*"
LOOK_S: Final = 0.25


class _Present(NamedTuple):
    """The elements of the config of a broker. `is_of_file` is true if its own file has them, and no dynamic value."""

    elements: list[str]
    is_of_file: bool


async def alter_cordon(admin: Admin, broker_id: int, operation: ConfigOperation, value: str | None) -> None:
    """Change the config of one broker. Raises KafkaError, ClientError."""
    resource = ConfigResource(ConfigResourceType.BROKER, str(broker_id))
    results = await admin.incremental_alter_configs({resource: [ConfigChange(CORDONED, value, operation)]})
    results.raise_first()


async def await_cordon(
    admin: Admin, broker_id: int, holds: Callable[[Mapping[int, Mapping[str, LogDir]]], bool]
) -> bool:
    """Wait until the broker's log directories are as wanted. Returns False after a time.

    A directory is described as cordoned once the controllers know it.
    """
    with trio.move_on_after(CORDON_S):
        while True:
            found = (await admin.describe_log_dirs([broker_id])).succeeded
            if found and holds(found):
                return True
            await trio.sleep(LOOK_S)
    return False


async def set_cordoned(admin: Admin, broker_id: int, names: Sequence[str], is_cordoned: bool) -> Mapping[str, bool]:
    """Cordon some log directories of a broker, or end that, and wait until the controllers know it.

    Other directories stay as they are, also if another command changes them at the same time. Returns whether the
    broker has each directory. The cordon of one that it no longer has can only end: the broker refuses a value that
    names it. Raises CommandFailed if a directory to cordon is absent, or if the broker does not tell the new state.
    """
    directories = (await admin.describe_log_dirs([broker_id])).value(broker_id)
    known = names if is_cordoned else [name for name in names if _is_known(name, directories)]
    absent = [name.rstrip("/") or "/" for name in names if name not in known]
    paths = [*find_directories(broker_id, known, directories), *absent]
    present = await _present(admin, broker_id)
    if _ALL in present.elements and not present.is_of_file:
        if not is_cordoned:
            raise _all_cordoned(broker_id)
    else:
        operation, elements = _change(present, list(directories), paths, is_cordoned)
        await alter_cordon(admin, broker_id, operation, ",".join(elements))
    # A directory that has failed is not reported to the controllers as cordoned.
    shown = [path for path in paths if path not in absent and directories[path].error is None]
    if not await await_cordon(
        admin, broker_id, lambda found: all(found[broker_id][path].is_cordoned is is_cordoned for path in shown)
    ):
        raise _not_told(broker_id, shown, is_cordoned)
    return {path: path not in absent for path in paths}


def _change(
    present: _Present, directories: Sequence[str], paths: Sequence[str], is_cordoned: bool
) -> tuple[ConfigOperation, Sequence[str]]:
    """The operation on the config, and its elements.

    Additions and removals of several commands do not undo each other, as new values would. The first dynamic value
    hides the one of the broker's file, so it begins with what the file cordons and is to stay cordoned.
    """
    if not present.is_of_file:
        return (ConfigOperation.APPEND if is_cordoned else ConfigOperation.SUBTRACT), paths
    kept = [path for path in (directories if _ALL in present.elements else present.elements) if path not in paths]
    if is_cordoned:
        return ConfigOperation.APPEND, [*kept, *paths]
    return (ConfigOperation.APPEND, kept) if kept else (ConfigOperation.SUBTRACT, paths)


async def _present(admin: Admin, broker_id: int) -> _Present:
    resource = ConfigResource(ConfigResourceType.BROKER, str(broker_id))
    entry = (await admin.describe_configs([resource], names=[CORDONED])).value(resource).get(CORDONED)
    if entry is None or not entry.value:
        return _Present([], False)
    return _Present([each.strip() for each in entry.value.split(",")], entry.source is ConfigSource.STATIC_BROKER)


def _is_known(name: str, directories: Collection[str]) -> bool:
    return any(name.rstrip("/") == path.rstrip("/") for path in directories)


def find_directories(broker_id: int, names: Sequence[str], directories: Collection[str]) -> Sequence[str]:
    """The paths of log directories of a broker, each once. Shells complete names with a slash at their end.

    Raises CommandFailed if the broker has no such directory.
    """
    without_slash = {path.rstrip("/"): path for path in directories}
    unknown = [name for name in names if name.rstrip("/") not in without_slash]
    if unknown:
        raise CommandFailed(
            f"Broker {broker_id} has no log directory {', '.join(unknown)}; it has {', '.join(sorted(directories))}.",
            Exit.NOT_FOUND,
        )
    return list(dict.fromkeys(without_slash[name.rstrip("/")] for name in names))


def _all_cordoned(broker_id: int) -> CommandFailed:
    return CommandFailed(
        f"All log directories of broker {broker_id} are cordoned by {CORDONED}={_ALL}, as `kraft cluster drain` sets "
        f"it: `kraft cluster undrain {broker_id}` ends that; then cordon those that are to stay so."
    )


def _not_told(broker_id: int, paths: Sequence[str], is_cordoned: bool) -> CommandFailed:
    state = "cordoned" if is_cordoned else "not cordoned any more"
    return CommandFailed(
        f"Broker {broker_id} does not tell within {CORDON_S:.0f} s that these are {state}: {', '.join(paths)}. `kraft "
        f"configs describe broker {broker_id}` shows whether {CORDONED} was changed again; if not, look whether the "
        f"broker reaches the controllers, and whether its log has dynamic_config_refused: it uses no value of "
        f"{CORDONED} that names a directory which is not in log.dirs. `kraft log-dirs uncordon` removes such an entry."
    )
