"""`python -m jepsen report <directory>`: render `report.html` from the files of a run, and print its path."""

import argparse
from pathlib import Path

from jepsen.report.findings import findings
from jepsen.report.page import page
from jepsen.store import REPORT, Store


def write_report(store: Store) -> Path:
    """Write the report and return its path. Raises FileNotFoundError if the directory has no run."""
    path = store.directory / REPORT
    path.write_text(page(findings(store)))
    return path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, nargs="+", help="the directory of a run")


def run(options: argparse.Namespace) -> int:
    for directory in options.directory:
        print(write_report(Store(directory)))
    return 0
