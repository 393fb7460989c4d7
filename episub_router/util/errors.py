"""What is in the groups that trio's nurseries make of errors."""

from __future__ import annotations


def single(error: BaseException) -> BaseException:
    """What is in groups of one; an interrupt beats all else."""
    if isinstance(error, BaseExceptionGroup):
        if error.subgroup(KeyboardInterrupt) is not None:
            return KeyboardInterrupt()
        if len(error.exceptions) == 1:
            return single(error.exceptions[0])
    return error


def has_cancelled(error: BaseException) -> bool:
    """Whether a cancellation of trio's is on its way out, alone or in a group."""
    import trio  # here, since commands without a network load this module

    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(trio.Cancelled) is not None
    return isinstance(error, trio.Cancelled)
