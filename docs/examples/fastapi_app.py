"""A web service that is a node: POST publishes, GET streams. Run it with uvicorn:

EPISUB_BOOTSTRAP=/ip4/127.0.0.1/tcp/.../p2p/... uvicorn fastapi_app:app --port 8001
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

from episub_router import Lagged, aio


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    bootstrap = os.environ.get("EPISUB_BOOTSTRAP", "").split()
    async with aio.open("news", bootstrap=bootstrap) as topic:
        app.state.topic = topic
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/news")
async def publish(request: Request) -> dict[str, int]:
    topic = request.app.state.topic
    await topic.publish(await request.body())
    return {"neighbors": len(topic.neighbors)}


@app.get("/news")
async def stream(request: Request) -> StreamingResponse:
    async def lines() -> AsyncIterator[bytes]:
        async for item in request.app.state.topic:
            yield b"(missed %d)\n" % item.count if isinstance(item, Lagged) else item.data + b"\n"

    return StreamingResponse(lines(), media_type="text/plain")
