"""Resets of a group's offsets: the target, and the new offset of each partition."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs
import click

from broker.cli.grammar import CommandFailed
from broker.cli.grammar.arguments import parse_time
from broker.client.admin import Admin, OffsetSpec
from broker.client.types import TopicPartition
from kraft.env import real_env

SHARE: Final = "share"
_TARGETS: Final = ("to_earliest", "to_latest", "to_current", "to_offset", "to_time", "shift_by")


@attrs.frozen
class Reset:
    """The target's option, and its value: an offset, a shift in records, or milliseconds since 1970."""

    target: str
    value: int = 0


def choose_reset(targets: Mapping[str, Any]) -> Reset:
    """Return the target that the command line names. Raises UsageError."""
    # A flag that was not given is False, any other target None. Offset 0 equals False, so compare identities.
    given = {name: targets[name] for name in _TARGETS if targets[name] is not None and targets[name] is not False}
    if len(given) != 1:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in _TARGETS)
        raise click.UsageError(f"Give exactly one of {options}.", click.get_current_context())
    ((target, value),) = given.items()
    if target != "to_time":
        return Reset(target, int(value))
    now_ms = int(real_env(lambda kind, /, **fields: None).wall() * 1000)
    return Reset(target, parse_time(value, now_ms))


async def refuse_other_type(admin: Admin, group_id: str, *, is_share: bool) -> None:
    """Raises CommandFailed if the group exists and the offsets of its type have another command; ClientError.

    Brokers answer a question for the offsets of a group of another type as for a group without offsets.
    """
    found = (await admin.describe_groups([group_id])).succeeded.get(group_id)
    if found is None or (found.type == SHARE) == is_share:
        return
    other = "groups" if is_share else "share-groups"
    raise CommandFailed(f"Group {group_id} is a {found.type} group; use `kraft {other} reset-offsets`")


async def committed_offsets(
    admin: Admin, group_id: str, partitions: Sequence[TopicPartition] | None
) -> dict[TopicPartition, int | None]:
    """The committed offset of each partition, or None; of all with an offset where `partitions` is None.

    Raises KafkaError, ClientError.
    """
    committed = (await admin.list_group_offsets({group_id: partitions})).value(group_id).raise_first()
    return {partition: offset and offset.offset for partition, offset in committed.items()}


async def plan_reset(
    admin: Admin, group_id: str, old: Mapping[TopicPartition, int | None], reset: Reset
) -> dict[TopicPartition, tuple[int | None, int]]:
    """The old and the new offset of each partition; `old` has the present ones. Raises CommandFailed, KafkaError,
    ClientError.
    """
    chosen = list(old)
    if not chosen:
        return {}
    earliest = await _offsets(admin, chosen, OffsetSpec.EARLIEST)
    latest = await _offsets(admin, chosen, OffsetSpec.LATEST)
    at_time = await _offsets(admin, chosen, reset.value) if reset.target == "to_time" else {}
    planned: dict[TopicPartition, tuple[int | None, int]] = {}
    for partition in chosen:
        first, end, now = earliest[partition] or 0, latest[partition] or 0, old.get(partition)
        if reset.target == "shift_by" and now is None:
            raise CommandFailed(f"Group {group_id} has no offset for {partition.topic}-{partition.partition} to shift")
        wanted = {
            "to_earliest": first,
            "to_latest": end,
            "to_current": end if now is None else now,
            "to_offset": reset.value,
            "to_time": end if at_time.get(partition) is None else at_time[partition],
            "shift_by": (now or 0) + reset.value,
        }[reset.target]
        planned[partition] = (now, min(max(wanted or 0, first), end))
    return planned


async def _offsets(
    admin: Admin, partitions: Sequence[TopicPartition], spec: OffsetSpec | int
) -> dict[TopicPartition, int | None]:
    found = (await admin.list_offsets(dict.fromkeys(partitions, spec))).raise_first()
    return {partition: offset and offset.offset for partition, offset in found.items()}
