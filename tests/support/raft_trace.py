"""Runs Raft cores by a script, and prints their effects as readable lines.

The script and its effects are one file: lines that begin with `> ` are commands, lines that begin with `#` and
empty ones are prose, all other lines are the effects of the command above.
"""

from collections.abc import Callable

from kraft.core import Effect, OffsetAndEpoch, ReplicaKey
from kraft.core import effects as todo
from kraft.core import messages as said
from kraft.core.messages import CurrentLeader, Error, Request, Response
from kraft.replicated_log import Batch, BatchKind
from tests.support.raft_harness import Listener, RaftHarness


class Script(Listener):
    """Runs the commands of one file."""

    def __init__(self) -> None:
        self.harness = RaftHarness([])
        self.lines: list[str] = []
        self._silent = False

    def play(self, text: str) -> str:
        """Run the file. Returns it with the same prose and commands, and with the effects of this run."""
        result = []
        for line in text.splitlines():
            if line.startswith("> "):
                self.lines = []
                words = line[2:].split()
                getattr(self, "do_" + words[0].replace("-", "_"))(*words[1:])
                result += [line, *self.lines]
            elif line.startswith("#") or not line:
                result.append(line)
        return "\n".join(result) + "\n"

    # Commands

    def do_nodes(self, *node_ids: str) -> None:
        """Create voters, and observers after the word `observers`. A node with a lower id has shorter timeouts."""
        cut = node_ids.index("observers") if "observers" in node_ids else len(node_ids)
        voters, observers = [int(each) for each in node_ids[:cut]], [int(each) for each in node_ids[cut + 1 :]]
        self.harness = RaftHarness(voters, observers, chance=_election_chance, listener=self)
        self.harness.start_all()

    def do_run(self, duration_ms: str) -> None:
        self.harness.run(float(duration_ms))

    def do_skip(self, duration_ms: str) -> None:
        """Run without printing effects."""
        self._silent = True
        self.harness.run(float(duration_ms))
        self._silent = False

    def do_append(self, node_id: str, *values: str) -> None:
        self.harness.append(int(node_id), *values)

    def do_crash(self, *node_ids: str) -> None:
        for node_id in node_ids:
            self.harness.crash(int(node_id))

    def do_wipe(self, node_id: str) -> None:
        self.harness.wipe(int(node_id), "new")

    def do_start(self, *node_ids: str) -> None:
        for node_id in node_ids:
            self.harness.start(int(node_id))

    def do_reset(self, node_id: str) -> None:
        self.harness.reset_connections(int(node_id))

    def do_leave(self, node_id: str) -> None:
        self.harness.leave(int(node_id))

    def do_cut(self, source: str, arrow: str, destination: str) -> None:
        """Cut a link: `1 - 2` in both directions, `1 -> 2` in one."""
        self.harness.cuts.add((int(source), int(destination)))
        if arrow == "-":
            self.harness.cuts.add((int(destination), int(source)))

    def do_heal(self) -> None:
        self.harness.cuts.clear()

    def do_snapshot(self, node_id: str) -> None:
        self.harness.take_snapshot(int(node_id))

    def do_add_voter(self, leader_id: str, node_id: str) -> None:
        voter = self.harness.voter(int(node_id), self.harness.hosts[int(node_id)].disk.directory_id[2:])
        self.harness.change_voters(int(leader_id), said.AddVoterRequest(voter, 1_000))

    def do_remove_voter(self, leader_id: str, node_id: str) -> None:
        key = self.harness.voter(int(node_id)).key
        self.harness.change_voters(int(leader_id), said.RemoveVoterRequest(key, 1_000))

    def do_show(self) -> None:
        for host in self.harness.hosts.values():
            if host.core is None:
                self.lines.append(f"{host.node_id} is down")
                continue
            core = host.core
            log = " ".join(_batch(batch) for batch in host.disk.batches) or "nothing"
            start = f" behind snapshot {_place(core.log.start)}" if core.log.start.offset else ""
            self.lines.append(
                f"{host.node_id} {core.role.value}, epoch {core.epoch}, committed below {core.high_watermark}, "
                f"voters {_ids(core.voters.ids)}; log{start}: {log}"
            )

    # Effects

    def became(self, node_id: int, effect: todo.RoleChanged) -> None:
        of = f" of {effect.leader_id}" if effect.leader_id not in (None, node_id) else ""
        self._say(f"{node_id} becomes {effect.role.value}{of} in epoch {effect.epoch}: {effect.cause.value}")

    def sent(self, source: int, destination: int, request: Request) -> None:
        self._say(f"{source} -> {destination}  {_request(request)}")

    def answered(self, source: int, destination: int, response: Response) -> None:
        target = f"{source} -> {destination}" if destination else f"{source} -> administrator"
        self._say(f"{target}  {_response(response)}")

    def lost(self, source: int, destination: int, message: Request | Response) -> None:
        self._say(f"{source} -> {destination}  is lost")

    def wrote(self, node_id: int, effect: Effect) -> None:
        match effect:
            case todo.PersistElection(state):
                vote = f", having voted for {_key(state.voted_for)}" if state.voted_for is not None else ""
                self._say(f"{node_id} remembers epoch {state.epoch}{vote}")
            case todo.AppendLog(batches):
                self._say(f"{node_id} writes {' '.join(map(_batch, batches))}")
            case todo.TruncateLog(end_offset):
                self._say(f"{node_id} truncates its log to {end_offset}")
            case todo.InstallSnapshot(snapshot):
                self._say(f"{node_id} installs snapshot {_place(snapshot)} in place of its log")

    def committed(self, node_id: int, end_offset: int) -> None:
        self._say(f"{node_id} has committed below {end_offset}")

    def _say(self, text: str) -> None:
        if not self._silent:
            self.lines.append(f"{self.harness.now_ms:6.0f}  {text}")


def _election_chance(node_id: int) -> Callable[[], float]:
    return lambda: min(0.9, 0.25 * (node_id - 1))


def _request(request: Request) -> str:
    match request:
        case said.VoteRequest():
            kind = "would you vote" if request.pre_vote else "vote"
            return (
                f"{kind} for {_key(request.candidate)} in epoch {request.epoch}, log ends at {_place(request.log_end)}?"
            )
        case said.BeginEpochRequest():
            return f"epoch {request.epoch} begins, {request.leader_id} leads"
        case said.EndEpochRequest():
            return f"epoch {request.epoch} ends, next should be {_ids(request.preferred_successors)}"
        case said.FetchRequest():
            return f"fetch in epoch {request.epoch}, log ends at {_place(request.log_end)}"
        case said.FetchSnapshotRequest():
            return f"fetch snapshot {_place(request.snapshot)} from byte {request.position}"
        case _:
            return type(request).__name__


def _response(response: Response) -> str:
    current_leader = _current_leader(response.current_leader)
    if response.error is not Error.NONE:
        return f"{response.error}, {current_leader}"
    match response:
        case said.VoteResponse():
            return f"{'yes' if response.granted else 'no'}, {current_leader}"
        case said.FetchResponse(diverging=OffsetAndEpoch() as place):
            return f"logs diverge, mine ends epoch {place.epoch} at {place.offset}, {current_leader}"
        case said.FetchResponse(snapshot=OffsetAndEpoch() as place):
            return f"fetch snapshot {_place(place)} first, {current_leader}"
        case said.FetchResponse():
            entries = " ".join(map(_batch, response.batches)) or "nothing"
            return f"here is {entries}, committed below {response.high_watermark}"
        case said.FetchSnapshotResponse():
            return f"here are {len(response.data)} of {response.size_bytes} bytes from {response.position}"
        case _:
            return f"ok, {current_leader}"


def _batch(batch: Batch) -> str:
    match batch.kind:
        case BatchKind.LEADER_CHANGE:
            what = "leader"
        case BatchKind.VOTERS:
            what = "voters"
        case BatchKind.DATA:
            what = ",".join(record.decode() for record in batch.records)
    return f"[{_place(OffsetAndEpoch(batch.base_offset, batch.epoch))} {what}]"


def _current_leader(current_leader: CurrentLeader) -> str:
    leader = f"{current_leader.leader_id} leads" if current_leader.leader_id is not None else "no leader known"
    return f"epoch {current_leader.epoch}, {leader}"


def _place(place: OffsetAndEpoch) -> str:
    return f"{place.offset}e{place.epoch}"


def _key(key: ReplicaKey | None) -> str:
    return "nobody" if key is None else str(key.node_id)


def _ids(node_ids: tuple[int, ...]) -> str:
    return ", ".join(map(str, node_ids)) or "none"
