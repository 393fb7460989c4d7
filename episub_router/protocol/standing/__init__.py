"""What is thought of each peer: promises kept and broken, what earns and what costs."""

from episub_router.protocol.standing import rules
from episub_router.protocol.standing.promises import Promises
from episub_router.protocol.standing.standings import Standings

__all__ = ["Promises", "Standings", "rules"]
