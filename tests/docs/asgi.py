"""As much of FastAPI as docs/examples/fastapi_app.py uses, where it isn't installed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from types import SimpleNamespace
from typing import Any


class Request:
    def __init__(self, app: FastAPI, receive: Callable[[], Any]) -> None:
        self.app = app
        self._receive = receive

    async def body(self) -> bytes:
        return bytes((await self._receive())["body"])


class StreamingResponse:
    def __init__(self, parts: AsyncIterator[bytes], media_type: str) -> None:
        self.parts = parts
        self.media_type = media_type


class FastAPI:
    def __init__(self, lifespan: Callable[[FastAPI], AbstractAsyncContextManager[None]]) -> None:
        self.state = SimpleNamespace()
        self._lifespan = lifespan
        self._routes: dict[tuple[str, str], Callable[[Request], Any]] = {}

    def get(self, path: str) -> Callable[[Any], Any]:
        return lambda handle: self._routes.setdefault(("GET", path), handle)

    def post(self, path: str) -> Callable[[Any], Any]:
        return lambda handle: self._routes.setdefault(("POST", path), handle)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            async with self._lifespan(self):
                await send({"type": "lifespan.startup.complete"})
                await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        made = await self._routes[scope["method"], scope["path"]](Request(self, receive))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        if isinstance(made, StreamingResponse):
            async for part in made.parts:
                await send({"type": "http.response.body", "body": part, "more_body": True})
        else:
            await send({"type": "http.response.body", "body": json.dumps(made).encode()})
