"""All kinds of files in a data directory, damaged in several ways, after a clean stop and after a crash.

A node starts, or refuses with a message that tells the operator what to do. If records are lost, an event reports it.
Each result is that of the table in docs/damaged-files.md.
"""

import re
from itertools import product
from pathlib import Path

import pytest
import trio

from tests.support.damaged_files import DAMAGES, ENDINGS, FILES, RECORDS, Outcome, prepare, run_case
from tests.support.source_code import ROOT


def _documented() -> dict[tuple[str, str], dict[str, str]]:
    """The cells of the document's table by file and ending, each by the damage."""
    lines = (ROOT / "docs" / "damaged-files.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")]
    return {(row[0], row[1]): dict(zip(DAMAGES, row[2:], strict=True)) for row in rows if row[1] in ENDINGS}


DOCUMENTED = _documented()
# Nothing on the disk shows that these records existed, because the recovery point was not checkpointed since.
UNKNOWN = {("last segment", "absent", "crash"), ("last segment", "empty", "crash")}
# A batch that is not read at the start is read by consumers, which verify its checksum.
READ_BY_CONSUMERS = {
    (file, "flipped bit", ending) for file in ("first segment", "middle segment", "last segment") for ending in ENDINGS
}
# Events before the node refuses to start; the command prints the refusal itself.
EVENT_LINE = re.compile(r"kraft: \S+ (warning|error) node 1: ")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    directories = {}
    for ending in ENDINGS:
        directories[ending] = tmp_path_factory.mktemp("prepared") / ending
        trio.run(prepare, directories[ending], ending)
    return directories


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("file", FILES)
def test_node_starts_or_prints_a_remedy(prepared: dict[str, Path], tmp_path: Path, file: str, ending: str) -> None:
    wrong, cells = {}, {}
    for how in DAMAGES:
        found = run_case(prepared[ending], tmp_path / "case", file, how)
        if found is not None and (why := what_is_wrong(found, (file, how, ending))):
            wrong[how] = f"{why}: {found}"
        cells[how] = "" if found is None else found.cell
    assert not wrong
    assert cells == DOCUMENTED[file, ending]


def test_the_document_has_a_row_for_each_file_and_ending() -> None:
    assert list(DOCUMENTED) == list(product(FILES, ENDINGS))


def what_is_wrong(found: Outcome, case: tuple[str, str, str]) -> str | None:
    if found.kind not in ("starts", "refuses"):
        return found.kind
    if any(not line.startswith("kraft: ") for line in found.lines):
        return "a line that is no sentence of the node"
    if found.kind == "refuses":
        refusals = [line for line in found.lines if not EVENT_LINE.match(line)]
        return None if refusals == found.lines[-1:] else "it does not end with one sentence that says what to do"
    is_whole = found.records == RECORDS and found.has_offsets
    if not is_whole and not found.lines and case not in UNKNOWN | READ_BY_CONSUMERS:
        return "records or offsets are gone without a word"
    return None
