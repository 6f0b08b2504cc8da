"""Bits that flip in the files of three running nodes: some cells of the table in docs/damaged-files.md."""

from pathlib import Path

import pytest

from tests.support.running_flips import FILES, flipped_cluster
from tests.support.source_code import ROOT

HEADING = "| flipped bit in | of the leader | of a follower |"
SOME = ("segment, closed", "segment, active", "segment of __transaction_state", ".txnindex", "metadata snapshot")


def documented() -> dict[str, list[str]]:
    """The cells of the document's table by the kind of file."""
    _, _, rest = (ROOT / "docs" / "damaged-files.md").read_text().partition(HEADING)
    rows = rest.partition("\n\n")[0].splitlines()[2:]
    return {cells[0]: cells[1:] for row in rows if (cells := [cell.strip() for cell in row.split("|")[1:-1]])}


def test_the_document_has_a_row_for_each_kind_of_file() -> None:
    assert list(documented()) == list(FILES)


@pytest.mark.parametrize("of_leader", [True, False], ids=["leader", "follower"])
async def test_flipped_bit_is_found_and_repaired_while_a_consumer_reads(tmp_path: Path, of_leader: bool) -> None:
    async with flipped_cluster(tmp_path) as flipped:
        for name in SOME:
            found = await flipped.flip(name, of_leader=of_leader)
            assert found.cell == documented()[name][0 if of_leader else 1]
        await flipped.cluster.until(lambda: len({content(tmp_path, node_id) for node_id in flipped.cluster.nodes}) == 1)


def content(directory: Path, node_id: int) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((directory / f"node-{node_id}" / "orders-0").glob("*.log")))
