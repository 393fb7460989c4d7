"""Reading arguments: errors in one line that names the option and what is allowed."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never

if TYPE_CHECKING:
    from multiaddr import Multiaddr


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are one line, without the usage in front."""

    def error(self, message: str) -> Never:
        """Exit with status 2."""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


class CommandError(Exception):
    """The command can't do its work; `str()` says why, in one line."""


def whole(low: int, high: int) -> Callable[[str], int]:
    """An argument that is a whole number in [`low`, `high`]."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(
                f"must be a whole number from {low} to {high}, not {text!r}"
            )
        return value

    return parse


def share(text: str) -> float:
    """An argument in [0, 1)."""
    value = _number(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 0 and less than 1, not {text!r}")
    return value


def positive(unit: str) -> Callable[[str], float]:
    """An argument that is a finite number above 0."""

    def parse(text: str) -> float:
        value = _number(text)
        if not 0 < value < math.inf:
            raise argparse.ArgumentTypeError(f"must be more than 0 {unit}, not {text!r}")
        return value

    return parse


seconds = positive("seconds")


def topic(text: str) -> str:
    """An argument that is a topic."""
    # Loaded here, since commands that have no topic needn't wait for it.
    from episub_router.wire import check_topics

    try:
        check_topics([text])
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def lacks_extra(extra: str, error: ModuleNotFoundError | str) -> CommandError:
    """What a command says that needs packages of an extra which aren't installed."""
    return CommandError(f"this needs more packages: pip install 'episub-router[{extra}]' ({error})")


def add_listening_arguments(
    parser: argparse.ArgumentParser,
    address: Callable[[str], Multiaddr] | None = None,
    where: str = "where to listen",
) -> None:
    """`--listen`, `--announce` and `--key`. `address` makes an address of what `--listen` names,
    which is `where` help says."""
    parser.add_argument(
        "--listen",
        action="append",
        type=address or _listened,
        metavar="MULTIADDR",
        help=f"{where}; may be repeated (default: /ip4/127.0.0.1/tcp/0, this machine only)",
    )
    parser.add_argument(
        "--announce",
        action="append",
        default=[],
        type=multiaddress,
        metavar="MULTIADDR",
        help="the address that others are given, as of a router that forwards a port; may be "
        "repeated (default: those that it listens at)",
    )
    parser.add_argument(
        "--key",
        type=Path,
        metavar="FILE",
        help="identity key; made if there is no such file (default: a new key for each run)",
    )


def add_metrics(parser: argparse.ArgumentParser) -> None:
    """`--metrics`."""
    parser.add_argument(
        "--metrics",
        type=whole(1, 65_535),
        metavar="PORT",
        help="serve Prometheus metrics at http://127.0.0.1:PORT/metrics (`episub metrics --help`)",
    )


def add_host_arguments(parser: argparse.ArgumentParser, **listening: Any) -> None:
    """`--listen`, `--announce`, `--key`, `--bootstrap` and `--verbose`."""
    add_listening_arguments(parser, **listening)
    parser.add_argument(
        "--bootstrap",
        nargs="+",
        action="extend",
        default=[],
        type=_contact,
        metavar="MULTIADDR",
        help="full addresses, with /p2p/, of nodes to join through",
    )
    parser.add_argument(
        "--verbose", action="store_true", help="note what happens in the topic, and what fails"
    )


def _listened(text: str) -> Multiaddr:
    if "/p2p-circuit" in text:
        raise argparse.ArgumentTypeError(
            f"{text!r} is a relay's; `episub node` alone listens there"
        )
    return multiaddress(text)


def _contact(text: str) -> Multiaddr:
    from episub_router.net.discovery.bootstrap import parse_bootstrap

    address = multiaddress(text)
    try:
        parse_bootstrap([address])
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return address


def multiaddress(text: str) -> Multiaddr:
    """An argument that is an address."""
    # Loaded here, since commands that have no addresses needn't wait for it.
    from multiaddr import Multiaddr

    try:
        return Multiaddr(text)
    except Exception as error:  # whatever the parts of the text make multiaddr raise
        raise argparse.ArgumentTypeError(f"{text!r} is no multiaddress") from error
