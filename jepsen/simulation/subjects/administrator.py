"""An administrator that sees the state of all replicas, and changes voters and loses disks within safe bounds."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final, Protocol

import attrs
import trio

from jepsen.simulation.invariants import Replica, Replicas
from jepsen.simulation.trace import Event
from kraft.core import ReplicaKey
from kraft.log import CorruptLog

# How long one change of the voters is tried.
CHANGE_SECONDS: Final = 4.0
# The endings of the names of the files of a metadata log.
METADATA_ENDINGS: Final = (".log", ".checkpoint", "quorum-state", "durable-end")


class NodeAccess(Protocol):
    """The administrator's access to the nodes of a subject."""

    def key_of(self, name: str) -> ReplicaKey | None:
        """The replica on a node's disk, or None before the disk is formatted."""
        ...

    def lose_disk(self, name: str) -> None:
        """Cut a node's power, and restart it with an empty disk, which makes it another replica."""
        ...

    def damage_disk(self, name: str, rng: Random) -> None:
        """Cut a node's power, and flip a bit of the log on its disk."""
        ...

    def is_serving(self, name: str) -> bool: ...

    async def change(self, function: str, name: str, key: ReplicaKey, give_up: float) -> None:
        """Try to `add-voter` or `remove-voter`, until it succeeds or the clock reaches `give_up`."""
        ...

    async def wait_settled(self) -> None:
        """Wait until a change that was given up can no longer take effect."""
        ...


@attrs.frozen
class _Damaged:
    """A replica with a damaged disk, and the end of its log before: the epoch of the last entry, and the offset."""

    key: ReplicaKey
    end: tuple[int, int]


class VoterAdministrator:
    """`founders` are the names of the first voters, `nodes` the names of all that may vote, by node id.

    `configured` are the names of the voters in which a node with an empty disk believes, until it learns of others: the
    founders if nodes are configured with `controller.quorum.voters`, else none.

    In every voter set that any replica believes in, voters that have lost their disks stay a minority: losing more
    would be an operator's error, which no quorum can survive.

    A damaged disk counts as lost until its node serves again with a log as up to date as before: any bit may have
    flipped, also one of an entry that the node has acknowledged. If the node refuses to start, it gets an empty disk.

    With it, it stays one of a minority of the configured voters until it serves, even if these do not vote any more.

    The nodes in `joining` add themselves to the voters (KIP-1186). The administrator may remove and add them too, but
    `repair` waits until they have done it themselves. The leader may add such a node for some seconds after its disk
    was lost, so the administrator counts it as a voter for that time.
    """

    def __init__(
        self,
        replicas: Replicas,
        nodes: Mapping[int, str],
        founders: Sequence[str],
        configured: Sequence[str],
        node_access: NodeAccess,
        joining: Sequence[str] = (),
    ) -> None:
        self._replicas = replicas
        self._nodes = nodes
        self._founders = founders
        self._configured = configured
        self._node_access = node_access
        self._joining = joining
        # The voters that were to be removed, by node id and directory id.
        self.removals: list[tuple[int, str]] = []
        self._lost: list[ReplicaKey] = []
        self._damaged: dict[str, _Damaged] = {}
        self._empty: list[str] = []
        # The replicas that may still be added at their own request, and the time at which their disks were lost.
        self._in_flight: list[tuple[ReplicaKey, float]] = []
        self._busy = trio.Lock()

    async def change_voters(self, rng: Random) -> None:
        """Add or remove one voter."""
        async with self._busy:
            self._drop_recovered()
            voters = self._latest_voters()
            changes = []
            for node_id, name in self._nodes.items():
                key = self._node_access.key_of(name)
                is_voter = node_id in [each.node_id for each in voters]
                # Also a damaged replica: the leader adds it only if its node answers and has caught up (KIP-853).
                if key is not None and not is_voter:
                    changes.append(("add-voter", key))
            for key in voters:
                rest = [each for each in voters if each != key]
                # A voter without a directory id in the log cannot be named.
                if rest and key.directory_id and _is_minority(self._lost, self._with_joining(rest)):
                    changes.append(("remove-voter", key))
            if changes:
                await self._change(*rng.choice(changes))

    async def lose_disk(self, rng: Random) -> None:
        async with self._busy:
            self._drop_recovered()
            choices = self._dispensable()
            if choices:
                name, key = rng.choice(choices)
                self._note_loss(name, key)
                self._empty.append(name)
                self._node_access.lose_disk(name)

    async def damage_disk(self, rng: Random) -> None:
        async with self._busy:
            self._drop_recovered()
            choices = [(name, key) for name, key in self._dispensable() if name in self._replicas.by_host]
            if choices:
                name, key = rng.choice(choices)
                self._note_loss(name, key)
                self._damaged[name] = _Damaged(key, self._replicas.by_host[name].end)
                self._node_access.damage_disk(name, rng)

    def replaces(self, event: Event) -> str | None:
        """Returns the name of the node that refused its damaged disk in this event, or None."""
        refuses = event.kind == "process_ended" and event.host in self._damaged
        if not refuses or CorruptLog.__name__ not in str(event.fields["errors"]):
            return None
        del self._damaged[event.host]
        self._empty.append(event.host)
        return event.host

    async def repair(self) -> None:
        """Change voters until they are the founders and the joining nodes with their present disks."""
        async with self._busy:
            self._drop_recovered()
            while not self._have_all_joined():
                await trio.sleep(0.1)
            while (change := self._next_repair()) is not None:
                await self._change(*change)

    def _have_all_joined(self) -> bool:
        """True if all joining nodes vote with their present disks, and have removed their former ones."""
        voters = self._latest_voters()
        return all(
            [voter for voter in voters if voter.node_id == node_id] == [self._node_access.key_of(name)]
            for node_id, name in self._nodes.items()
            if name in self._joining
        )

    def _note_loss(self, name: str, key: ReplicaKey) -> None:
        self._lost.append(key)
        if name in self._joining:
            self._in_flight.append((key, trio.current_time()))

    def _with_joining(self, voters: Sequence[ReplicaKey], *more: ReplicaKey) -> list[ReplicaKey]:
        """`voters`, with the lost replicas that the leader may still add, and with `more`."""
        oldest = trio.current_time() - CHANGE_SECONDS
        pending = [*(key for key, lost_at in self._in_flight if lost_at > oldest), *more]
        return [*voters, *(key for key in dict.fromkeys(pending) if key not in voters)]

    def _drop_recovered(self) -> None:
        for name, damaged in list(self._damaged.items()):
            if self._node_access.is_serving(name) and self._replicas.by_host[name].end >= damaged.end:
                del self._damaged[name]
                self._lost.remove(damaged.key)
        self._empty = [name for name in self._empty if not self._node_access.is_serving(name)]

    def _dispensable(self) -> list[tuple[str, ReplicaKey]]:
        """The nodes whose disks may be lost, with their replicas."""
        found = []
        for name in self._nodes.values():
            key = self._node_access.key_of(name)
            if name in self._damaged or (name in self._configured and not self._leaves_configured(name)):
                continue
            # A voter set without directory ids would take the new disk for the old one (KIP-853).
            if key is None:
                continue
            adds_itself = [key] if name in self._joining else []
            views = [self._with_joining(view, *adds_itself) for view in self._views()]
            if all(ReplicaKey(key.node_id) not in view and _is_minority([*self._lost, key], view) for view in views):
                found.append((name, key))
        return found

    def _leaves_configured(self, name: str) -> bool:
        """True if a majority of the configured voters has its disk without this one."""
        unusable = [each for each in self._configured if each == name or each in self._damaged or each in self._empty]
        return 2 * len(unusable) < len(self._configured)

    def _views(self) -> list[list[ReplicaKey]]:
        """The voters that each replica knows."""
        return [_keys(replica) for replica in self._replicas.by_host.values()]

    def _next_repair(self) -> tuple[str, ReplicaKey] | None:
        voters = self._latest_voters()
        names = dict.fromkeys((*self._founders, *self._joining))
        wanted = [key for name in names if (key := self._node_access.key_of(name)) is not None]
        superfluous = [key for key in voters if not any(key.matches(each) for each in wanted)]
        missing = [key for key in wanted if not any(key.matches(each) for each in voters)]
        for key in superfluous:
            if key in self._lost:
                return "remove-voter", key
        if missing:
            return "add-voter", missing[0]
        return ("remove-voter", superfluous[0]) if superfluous else None

    def _latest_voters(self) -> list[ReplicaKey]:
        """The latest voters that any replica knows, committed or not."""
        latest = max(self._replicas.by_host.values(), key=lambda each: (each.end_epoch or 0, each.voters_offset))
        return _keys(latest)

    async def _change(self, function: str, key: ReplicaKey) -> None:
        if function == "remove-voter":
            self.removals.append((key.node_id, key.directory_id))
        give_up = trio.current_time() + CHANGE_SECONDS
        with trio.move_on_at(give_up):
            await self._node_access.change(function, self._nodes[key.node_id], key, give_up)
            return
        await self._node_access.wait_settled()


def _is_minority(lost: Sequence[ReplicaKey], voters: Sequence[ReplicaKey]) -> bool:
    return 2 * sum(key in lost for key in voters) < len(voters)


def _keys(replica: Replica) -> list[ReplicaKey]:
    return [ReplicaKey(*voter) for voter in replica.voters]
