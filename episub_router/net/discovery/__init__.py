"""Finding nodes that are in a topic (E02)."""

from episub_router.net.discovery.bootstrap import Bootstrap, BootstrapWatch, parse_bootstrap
from episub_router.net.discovery.rendezvous import Rendezvous
from episub_router.net.discovery.source import Discovery, check_sources

__all__ = [
    "Bootstrap",
    "BootstrapWatch",
    "Discovery",
    "Rendezvous",
    "check_sources",
    "parse_bootstrap",
]
