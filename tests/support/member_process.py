"""A member of a group as a process that can be killed: `python -m tests.support.member_process <membership>`.

It prints a line for each event of its history. When its stdin is closed, it ends like a consumer that is closed.
"""

import json
import os
import subprocess
import sys
import threading
import time
from typing import Final, TextIO

import attrs

from jepsen.processes.launcher import LaunchedProcess, Program, launcher
from tests.support.group_history import Event, GroupHistory
from tests.support.group_members import KINDS, WITHIN_S, GroupMember, Membership

_MEMBER: Final = Program("tests.support.member_process", ("tests.support.group_members",))
_STDERR: Final = 2


class MemberProcess:
    """The parent's view of a GroupMember in a process: it adds the printed events to the history."""

    def __init__(self, kind: type[GroupMember], membership: Membership, history: GroupHistory) -> None:
        self.kind, self.membership, self.history = kind, membership, history
        self.name = membership.name
        self.errors: list[str] = []
        self._process: LaunchedProcess | None = None
        self._stdin: TextIO | None = None
        self._reader: threading.Thread | None = None

    @property
    def process(self) -> LaunchedProcess:
        assert self._process is not None, f"{self.name} was never started"
        return self._process

    def start(self) -> None:
        told = json.dumps({"kind": self.kind.__name__, **attrs.asdict(self.membership)})
        stdin, written = os.pipe()
        read, stdout = os.pipe()
        self._process = launcher().start(_MEMBER, [told], stdout, errors=_STDERR, stdin=stdin)
        for each in (stdin, stdout):
            os.close(each)
        self._stdin = os.fdopen(written, "w")
        self._reader = threading.Thread(target=self._read, args=[os.fdopen(read)], daemon=True)
        self._reader.start()

    def stop(self) -> None:
        """Leave the group, as closing a consumer does."""
        assert self._stdin is not None, "it was started"
        self._stdin.close()
        try:
            self.process.wait(WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.name} does not end") from None
        self._end()

    def kill(self) -> None:
        """kill -9: the group is not informed."""
        self.process.kill()
        self.process.wait()
        self._end()

    def _end(self) -> None:
        """Read the events that it has printed, then record that it owns nothing."""
        at = time.monotonic()
        assert self._reader is not None, "it was started"
        self._reader.join(WITHIN_S)
        assert self._stdin is not None, "it was started"
        self._stdin.close()
        self.history.tell(Event(at, self.name, "gone", ()))

    def _read(self, stdout: TextIO) -> None:
        with stdout:
            for line in stdout:
                if not line.endswith("\n"):
                    return  # it was killed while it wrote this line
                told = json.loads(line)
                if isinstance(told, str):
                    self.errors.append(told)
                    continue
                at, name, kind, partitions, offset = told
                self.history.tell(Event(at, name, kind, tuple((topic, index) for topic, index in partitions), offset))


class _Printed(GroupHistory):
    """A history that prints its events, for the parent process."""

    def tell(self, event: Event) -> None:
        _print(event)


def _print(what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main(told: str) -> None:
    fields = json.loads(told)
    kind_name = fields.pop("kind")
    (kind,) = [each for each in KINDS if each.__name__ == kind_name]
    member = kind(Membership(**fields), _Printed())
    member.start()
    sys.stdin.read()
    member.stop()
    for error in member.errors:
        _print(error)


if __name__ == "__main__":
    main(sys.argv[1])
