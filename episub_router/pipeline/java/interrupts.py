"""The end of a command, by Ctrl-C, too."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from pyspark import SparkContext
from pyspark.sql import SparkSession


@contextmanager
def stopped_in_the_end(spark: SparkSession) -> Iterator[None]:
    """Stop `spark` when this context ends. On SIGINT, that is done at once, by another thread: this
    one may be waiting for the JVM. Whatever the jobs that this ends raise, the context raises
    KeyboardInterrupt, and neither Python nor the JVM says more."""
    stopping: list[threading.Thread] = []

    def stop() -> None:
        # Counters come to this process through a server that would print what ends them.
        server = getattr(spark.sparkContext, "_accumulatorServer", None)
        if server is not None:
            server.handle_error = lambda *_: None
        try:
            spark.sparkContext.setLogLevel("OFF")
            spark.stop()
        except Exception:
            # On a busy machine the JVM may not answer any more, and still say what goes wrong.
            _kill_jvm()

    def interrupted(*_: object) -> NoReturn:
        if not stopping:
            stopping.append(threading.Thread(target=stop))
            stopping[0].start()
        raise KeyboardInterrupt

    in_main = threading.current_thread() is threading.main_thread()
    # PySpark's own asks the JVM in the middle of another question.
    before = signal.signal(signal.SIGINT, interrupted) if in_main else None
    with _py4j_unlogged(), _finalizers_unheeded():
        try:
            yield
        except BaseException:
            if stopping:
                raise KeyboardInterrupt from None
            raise
        finally:
            for thread in stopping:
                thread.join()
            if not stopping:
                spark.stop()
            if in_main:
                signal.signal(signal.SIGINT, before)


@contextmanager
def _finalizers_unheeded() -> Iterator[None]:
    """Keep KeyboardInterrupt out of the terminal where a finalizer of py4j's objects raised it, and
    Python has to ignore it. What is stopped on SIGINT ends the command all the same."""
    before = sys.unraisablehook

    def hook(ignored: sys.UnraisableHookArgs) -> None:
        if not issubclass(ignored.exc_type, KeyboardInterrupt):
            before(ignored)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


@contextmanager
def _py4j_unlogged() -> Iterator[None]:
    """Keep what PySpark's bridge to the JVM says of errors, which it raises, too, out of the
    terminal. Some of that it logs by its own name, and some by none."""
    logger, root = logging.getLogger("py4j"), logging.getLogger()
    level = logger.level

    def of_others(record: logging.LogRecord) -> bool:
        return "py4j" not in record.pathname

    logger.setLevel(logging.CRITICAL)
    root.addFilter(of_others)
    try:
        yield
    finally:
        logger.setLevel(level)
        root.removeFilter(of_others)


def _kill_jvm() -> None:
    process = getattr(SparkContext._gateway, "proc", None)
    if process is not None:
        process.kill()
        process.wait()
