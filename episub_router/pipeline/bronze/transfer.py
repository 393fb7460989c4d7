"""Files at Hadoop's URIs for Python, which has no client for them: Hadoop's own shell, in a process
of a task's, streams them in blocks, so that no file is in memory as a whole."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from xml.sax.saxutils import escape

import pyspark
from pyspark.sql import SparkSession

BLOCK = 1 << 20
"""Bytes copied at once."""

_PREFIX = "spark.hadoop."


@dataclass(frozen=True, slots=True)
class HadoopShell:
    """Hadoop's shell with some settings, `(key, value)` each; may be sent to tasks."""

    settings: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, spark: SparkSession) -> HadoopShell:
        """The shell with the settings of the session's that are Hadoop's."""
        given = spark.sparkContext.getConf().getAll()
        chosen = [(key.removeprefix(_PREFIX), value) for key, value in given
                  if key.startswith(_PREFIX)]  # fmt: skip
        return cls(tuple(sorted(chosen)))

    def fetched(self, files: Sequence[tuple[str, int]]) -> Iterator[str]:
        """The paths of local copies of `files` (URI, bytes), one after another; a copy is there
        until the next one is asked for. Raises OSError where a file can't be read, or isn't as
        long as it was said to be."""
        if not files:
            return
        names = [_literal(uri) for uri, _ in files]
        with (
            tempfile.TemporaryFile() as errors,
            self._command("-cat", *names) as command,
            _running(command, errors) as shell,
        ):
            assert shell.stdout is not None
            for uri, size in files:
                # The name says whether it is gzipped, too.
                with tempfile.NamedTemporaryFile(suffix=Path(uri).suffix) as copy:
                    if _copy(shell.stdout, copy, size) < size:
                        raise OSError(f"{uri} can't be read: {_said(errors)}")
                    copy.flush()
                    yield copy.name
            if shell.stdout.read(1) or shell.wait():
                raise OSError(
                    f"one of {', '.join(uri for uri, _ in files)} has changed while it was read"
                )

    def put(self, path: str, uri: str) -> None:
        """Copy the local file at `path` to `uri`, in place of what is there. Raises OSError."""
        with tempfile.TemporaryFile() as errors, self._command("-put", "-f", path, uri) as command:
            if subprocess.run(command, stderr=errors).returncode:
                raise OSError(f"{uri} can't be written: {_said(errors)}")

    @contextmanager
    def _command(self, *arguments: str) -> Iterator[list[str]]:
        """The command line, for as long as the settings are in a file: others can read what a
        process was called with."""
        jars = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent, "jars", "*")
        with tempfile.TemporaryDirectory() as directory:
            # Hadoop's shell insists on there being one.
            Path(directory, "core-site.xml").write_text("<configuration/>")
            settings = Path(directory, "settings.xml")
            settings.write_text(self._settings())
            classes = [os.environ.get("HADOOP_CONF_DIR"), directory, str(jars)]
            yield [
                _java(), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                "-cp", os.pathsep.join(filter(None, classes)), "org.apache.hadoop.fs.FsShell",
                "-conf", str(settings), *arguments,
            ]  # fmt: skip

    def _settings(self) -> str:
        properties = [
            f"<property><name>{escape(key)}</name><value>{escape(value)}</value></property>"
            for key, value in self.settings
        ]
        return f"<configuration>{''.join(properties)}</configuration>"


def _java() -> str:
    """The Java that Spark itself runs on. Raises FileNotFoundError."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if found is None:
        raise FileNotFoundError("no Java to read a Hadoop URI with: set JAVA_HOME")
    return found


def _literal(uri: str) -> str:
    """`uri` with what the shell would take for a pattern escaped."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", uri)


@contextmanager
def _running(command: Sequence[str], errors: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors) as process:
        try:
            yield process
        finally:
            process.kill()


def _copy(source: IO[bytes], target: IO[bytes], size: int) -> int:
    """Copy up to `size` bytes; how many there were."""
    copied = 0
    while copied < size and (block := source.read(min(BLOCK, size - copied))):
        target.write(block)
        copied += len(block)
    return copied


def _said(errors: IO[bytes]) -> str:
    """The first line of a shell's that is no frame of a stack, nor a warning."""
    errors.seek(0)
    lines = errors.read(BLOCK).decode(errors="replace").splitlines()
    lines_said = [line for line in lines if line[:1].strip() and " WARN " not in line]
    return lines_said[0] if lines_said else "it has become shorter"
