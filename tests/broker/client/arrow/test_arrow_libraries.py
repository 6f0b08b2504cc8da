"""numpy and pyarrow are optional: only the Arrow package imports them, and its error names what to install."""

import subprocess
import sys

import pytest

from tests.support.source_code import imports, is_within, read_modules


@pytest.mark.parametrize("missing", ["numpy", "pyarrow"])
def test_importing_arrow_without_its_libraries_names_the_extra_to_install(missing: str) -> None:
    script = f"import sys; sys.modules[{missing!r}] = None; import broker.client; import broker.client.arrow"
    outcome = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert outcome.returncode == 1
    assert 'pip install "kraft[arrow]"' in outcome.stderr.splitlines()[-1]


# Packages that require the libraries.
BEYOND = ("benchmarks", "broker.spark", "jepsen.spark")


def test_of_the_client_only_the_arrow_package_imports_numpy_and_pyarrow() -> None:
    importers = {
        module.name
        for module in read_modules().values()
        for imported in imports(module)
        if imported.top_level in ("numpy", "pyarrow") and not any(is_within(module.name, each) for each in BEYOND)
    }
    assert importers == {"broker.client.arrow.libraries"}
