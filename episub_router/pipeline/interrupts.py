"""The end of a command, by Ctrl-C, too."""

import logging
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from episub_router.pipeline.session import SparkSession, is_remote


@contextmanager
def stopped_in_the_end(spark: SparkSession) -> Iterator[None]:
    """Stop `spark` when this context ends. On SIGINT, that is done at once, by another thread: this
    one may be waiting for the engine. Whatever the jobs that this ends raise, the context raises
    KeyboardInterrupt, and nobody says more."""
    stopping: list[threading.Thread] = []

    def stop() -> None:
        with suppress(Exception):
            if not is_remote(spark):
                spark.sparkContext.setLogLevel("OFF")
            spark.stop()

    def interrupted(*_: object) -> NoReturn:
        if not stopping:
            stopping.append(threading.Thread(target=stop))
            stopping[0].start()
        raise KeyboardInterrupt

    in_main = threading.current_thread() is threading.main_thread()
    # PySpark's own asks the JVM in the middle of another question.
    before = signal.signal(signal.SIGINT, interrupted) if in_main else None
    with _unsaid():
        try:
            # A stream that begins anew has put it off.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
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
def _unsaid() -> Iterator[None]:
    """Keep out of the terminal what PySpark logs of errors that it raises, too, and
    KeyboardInterrupt where a finalizer raised it."""
    logger, hook = logging.getLogger("py4j"), sys.unraisablehook
    level = logger.level

    def heeded(ignored: "sys.UnraisableHookArgs") -> None:
        if not issubclass(ignored.exc_type, KeyboardInterrupt):
            hook(ignored)

    logger.setLevel(logging.CRITICAL)
    sys.unraisablehook = heeded
    try:
        yield
    finally:
        logger.setLevel(level)
        sys.unraisablehook = hook
