"""Reads the tables of a document."""

from tests.support.source_code import ROOT


def table_rows(document: str, section: str, head: str) -> list[list[str]]:
    """The cells of the table in a section whose header begins with `head`, without backticks."""
    content = (ROOT / document).read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    lines = content[content.index(f"\n| {head} |") + 1 :].partition("\n\n")[0].splitlines()
    return [[cell.strip().replace("`", "") for cell in line.strip("|").split("|")] for line in lines[2:]]
