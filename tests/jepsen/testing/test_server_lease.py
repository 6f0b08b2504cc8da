"""The test server that processes of a run share."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jepsen.testing import server_lease
from jepsen.testing.server_lease import ServerLease


def test_server_is_started_once_for_all_that_ask_at_the_same_time_and_again_after_its_end(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        leases = list(pool.map(lambda _: ServerLease.shared(tmp_path), range(4)))
    zygotes = {lease.client.request("GET", "/")["zygote"] for lease in leases}
    assert len(zygotes) == 1
    for lease in leases:
        lease.release()
    again = ServerLease.shared(tmp_path)
    assert again.client.request("GET", "/")["zygote"] not in zygotes
    again.release()


def test_server_that_cannot_start_is_an_error_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_lease, "_PROGRAM", "raise SystemExit(3)")
    with pytest.raises(OSError, match="ended before it served"):
        ServerLease.shared(tmp_path)
    with pytest.raises(OSError, match="ended before it served"):
        ServerLease.start()
