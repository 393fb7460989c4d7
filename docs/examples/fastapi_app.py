"""A web service that is a node: POST publishes, GET streams. Run it with uvicorn:

EPISUB_BOOTSTRAP=/ip4/127.0.0.1/tcp/.../p2p/... uvicorn fastapi_app:app --port 8001
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from weakref import WeakSet

from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

from episub_router import Lagged, aio


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    bootstrap = os.environ.get("EPISUB_BOOTSTRAP", "").split()
    async with aio.open("news", bootstrap=bootstrap) as topic, asyncio.TaskGroup() as tasks:
        app.state.topic = topic
        app.state.streams = streams = WeakSet[asyncio.Queue[bytes]]()
        copying = tasks.create_task(copy(topic, streams))
        yield
        copying.cancel()


async def copy(topic: aio.AsyncioTopic, streams: WeakSet[asyncio.Queue[bytes]]) -> None:
    """Each stream gets all messages, less those that its client is too slow for."""
    async for item in topic:
        line = b"(missed %d)" % item.count if isinstance(item, Lagged) else item.data
        for stream in streams:
            with suppress(asyncio.QueueFull):
                stream.put_nowait(line + b"\n")


app = FastAPI(lifespan=lifespan)


@app.post("/news")
async def publish(request: Request) -> dict[str, int]:
    topic = request.app.state.topic
    await topic.publish(await request.body())
    return {"neighbors": len(topic.neighbors)}


@app.get("/news")
async def stream(request: Request) -> StreamingResponse:
    lines: asyncio.Queue[bytes] = asyncio.Queue(maxsize=1000)
    request.app.state.streams.add(lines)

    async def parts() -> AsyncIterator[bytes]:
        while True:
            yield await lines.get()

    return StreamingResponse(parts(), media_type="text/plain")
