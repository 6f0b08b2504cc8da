"""docs/spark-jobs.md: each example runs against a node, and prints what the document says."""

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.support.document_examples import examples, run_example

DOCUMENT = "docs/spark-jobs.md"


def test_the_examples_run_and_print_the_shown_output(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    names: dict[str, Any] = {"DIRECTORY": str(tmp_path / "lake")}
    for line, code, expected in examples(DOCUMENT):
        printed = run_example("\n" * line + code.replace("localhost:9092", bootstrap), DOCUMENT, names)
        if expected is not None:
            assert printed == expected, f"{DOCUMENT}, line {line}"
