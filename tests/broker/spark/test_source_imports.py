"""The time to import the data source, which Spark does in a new process for each query."""

import subprocess
import sys


def test_finding_the_source_imports_neither_the_client_nor_arrow() -> None:
    code = (
        "import pyspark_kraft, sys; print(sorted({'numpy', 'pyarrow', 'trio', 'broker.client'} & sys.modules.keys()))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
