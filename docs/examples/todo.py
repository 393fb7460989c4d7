"""A to-do list that a group shares: one stream, folded into one file that survives any crash.

python todo.py ann.db add "buy milk"      # writes, and prints the list
python todo.py ann.db done "buy milk" /ip4/127.0.0.1/tcp/4001/p2p/12D3...
python todo.py ann.db                     # stays, and prints the list as it changes
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import trio

from episub_router import sds


def fold(todo: dict[str, Any], message: sds.ChannelMessage) -> None:
    """The newest word on a task counts, by its place in the group's order, also if it is late."""
    word, task = json.loads(message.content)
    todo[task] = max(todo.get(task, [0, ""]), [message.clock, word])


def save(db: str, state: dict[str, Any]) -> None:
    """State and cursor in one step."""
    Path(f"{db}.new").write_text(json.dumps(state))
    os.replace(f"{db}.new", f"{db}.json")


def load(db: str) -> dict[str, Any]:
    file = Path(f"{db}.json")
    return json.loads(file.read_text()) if file.exists() else {"todo": {}, "cursor": None}


async def main(db: str, *arguments: str) -> None:
    bootstrap = [a for a in arguments if a.startswith("/")]
    words = [a for a in arguments if not a.startswith("/")]
    state = load(db)
    async with sds.open("to-do", path=db, bootstrap=bootstrap) as channel:
        print("listening on", *channel.addresses, flush=True)
        if words:
            await channel.send(json.dumps(words).encode())
        async for message in channel.stream(after=state["cursor"]):
            fold(state["todo"], message)
            state["cursor"] = message.cursor
            save(db, state)
            open_tasks = sorted(t for t, (_, w) in state["todo"].items() if w == "add")
            print("to do:", ", ".join(open_tasks), flush=True)


trio.run(main, *sys.argv[1:])
