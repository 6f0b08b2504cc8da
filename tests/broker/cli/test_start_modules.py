"""The modules that `kraft start` imports before it serves. `start_modules.txt` lists them, so that none creeps in."""

import re
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

from tests.support.source_code import ROOT

LISTED = Path(__file__).with_name("start_modules.txt")
IMPORTED = re.compile(r"import time: +\d+ \| +\d+ \| +(\S+)")
PACKAGES = ("broker", "kraft", "metadata")
SERVES = "kraft: node "
# Lines of modules that are no longer imported.
STALE_MAX = 20


def test_start_imports_only_the_listed_modules_before_it_serves(tmp_path: Path) -> None:
    listeners = "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"
    command = [sys.executable, "-X", "importtime", "-m", "broker.cli", "start"]
    command += ["--override", listeners, "--override", f"log.dirs={tmp_path / 'data'}"]
    imported = set()
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if found := IMPORTED.match(line):
                imported.add(found[1])
            elif line.startswith(SERVES):
                process.terminate()
                break
        process.stdout.read()
    installed = {name for name in packages_distributions() if not name.startswith("_")}
    found_names = {name for name in imported if name.partition(".")[0] in PACKAGES or name in installed}
    listed = set(LISTED.read_text().split())
    new, stale = sorted(found_names - listed), sorted(listed - found_names)
    assert process.returncode == 0
    assert not new, f"a start pays for {', '.join(new)}: import them at their first use, or list them in {LISTED.name}"
    assert len(stale) <= STALE_MAX, f"no longer imported, so remove them from {LISTED.name}: {', '.join(stale)}"
