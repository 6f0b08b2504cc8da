"""The CRC-32C of `kraft.checksums`, beside the package from which it takes its extension module."""

import os
import subprocess
import sys
from pathlib import Path

import crc32c

from kraft import checksums
from tests.support.source_code import ROOT


def test_crc32c_is_that_of_the_package_and_of_rfc_3720() -> None:
    assert checksums.crc32c(b"123456789") == crc32c.crc32c(b"123456789") == 0xE3069283
    assert checksums.crc32c(memoryview(b"6789"), checksums.crc32c(b"12345")) == 0xE3069283


def test_crc32c_comes_from_a_package_that_is_divided_in_another_way(tmp_path: Path) -> None:
    (tmp_path / "crc32c.py").write_text("def crc32c(data): return 7")
    command = [sys.executable, "-c", "from kraft.checksums import crc32c; print(crc32c(b''))"]
    path = os.pathsep.join((str(tmp_path), str(ROOT)))
    printed = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    assert printed.stdout == "7\n"
