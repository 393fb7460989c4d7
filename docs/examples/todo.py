"""A to-do list that a group shares: one stream, folded into one file that survives any crash.

python todo.py ann.db add "buy milk"      # or done; without words, only prints the list
python todo.py bob.db /ip4/127.0.0.1/tcp/4001/p2p/12D3..."""

import json
import sys
from pathlib import Path
from typing import Any

import trio

from episub_router import sds


def fold(state: dict[str, Any], message: sds.ChannelMessage, file: Path) -> None:
    """The newest word on a task counts, by its place in the group's order, also if it is late."""
    word, task = json.loads(message.content)
    state["todo"][task] = max(state["todo"].get(task, [0, ""]), [message.clock, word])
    state["cursor"] = message.cursor
    (new := file.with_suffix(".new")).write_text(json.dumps(state))
    new.replace(file)  # the list and the place in the order, in one step


async def main(db: str, state: dict[str, Any], *arguments: str) -> None:
    peers = [a for a in arguments if a.startswith("/")]
    words = [a for a in arguments if a not in peers]
    async with sds.open("to-do", path=db, bootstrap=peers) as channel:
        print("listening on", *channel.addresses, flush=True)
        if words:
            await channel.send(json.dumps(words).encode())
        async for message in channel.stream(after=state["cursor"]):
            fold(state, message, Path(f"{db}.json"))
            todo = sorted(task for task, (_, word) in state["todo"].items() if word == "add")
            print("to do:", ", ".join(todo), flush=True)


saved = Path(f"{sys.argv[1]}.json")
start = json.loads(saved.read_text()) if saved.exists() else {"todo": {}, "cursor": None}
trio.run(main, sys.argv[1], start, *sys.argv[2:])
