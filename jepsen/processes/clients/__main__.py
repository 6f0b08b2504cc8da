"""`python -m jepsen.processes.clients <plan as JSON>`: one client, until standard input ends."""

import sys
from collections.abc import Callable
from typing import Final

from jepsen.processes.clients.asking import ask
from jepsen.processes.clients.client import Client, ClientPlan
from jepsen.processes.clients.consuming import consume, read_to_the_end
from jepsen.processes.clients.contending import contend, see_topics
from jepsen.processes.clients.joining import join
from jepsen.processes.clients.producing import produce
from jepsen.processes.clients.sharing import begin_shares, finish_shares, share
from jepsen.processes.clients.transacting import (
    audit,
    consume_committed,
    mix_assigned,
    mix_subscribed,
    move,
    read_transactions,
    transact,
    transform_records,
)

ROLES: Final[dict[str, Callable[[Client], None]]] = {
    "produce": produce,
    "consume": consume,
    "join": join,
    "contend": contend,
    "ask": ask,
    "read": read_to_the_end,
    "see-topics": see_topics,
    "transact": transact,
    "transform": transform_records,
    "move-amounts": move,
    "audit": audit,
    "mix-assigned": mix_assigned,
    "mix-subscribed": mix_subscribed,
    "consume-committed": consume_committed,
    "read-transactions": read_transactions,
    "begin-shares": begin_shares,
    "share": share,
    "finish-shares": finish_shares,
}


def main() -> None:
    plan = ClientPlan.read(sys.argv[1])
    ROLES[plan.role](Client(plan))


if __name__ == "__main__":
    main()
