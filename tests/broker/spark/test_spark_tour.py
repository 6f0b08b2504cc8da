"""docs/spark.md: each example runs against a node, and prints what the document says."""

from typing import Any

from pyspark.sql import SparkSession

from tests.support.document_examples import examples, run_example

DOCUMENT = "docs/spark.md"


def test_the_examples_run_and_print_the_shown_output(spark: SparkSession, bootstrap: str) -> None:
    names: dict[str, Any] = {}
    for line, code, expected in examples(DOCUMENT):
        printed = run_example("\n" * line + code.replace("localhost:9092", bootstrap), DOCUMENT, names)
        if expected is not None:
            assert printed == expected, f"{DOCUMENT}, line {line}"
