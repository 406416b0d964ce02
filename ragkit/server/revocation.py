"""Ends the responses of users whose access was revoked: streams, downloads and calls that run."""

from __future__ import annotations

import asyncio
from functools import partial

from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragkit.server.concurrency import run_in_thread
from ragkit.server.principals import CURRENT, AccessControl, access_revoked

INTERVAL_S = 0.25
"""Seconds between two looks at the user of a response that goes on."""
GRACE_S = 0.4
"""Seconds in which an answer ends its stream itself, with an event that says why."""


class RevocationGuard:
    """ASGI middleware, within the one that knows the principal of a request."""

    def __init__(self, app: ASGIApp, access: AccessControl) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, until its user is revoked: then the response is cut off, or is an error.

        Raises ClientDisconnect for a response that is cut off.
        """
        principal = CURRENT.get()
        if scope["type"] != "http" or principal is None or not principal.token:
            await self._app(scope, receive, send)
            return
        has_started = False

        async def note_start(message: Message) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        work = asyncio.ensure_future(self._app(scope, receive, note_start))
        try:
            while not (await asyncio.wait((work,), timeout=INTERVAL_S))[0]:
                if await run_in_thread(partial(self._access.is_revoked, principal)):
                    await asyncio.wait((work,), timeout=GRACE_S)
                    break
            if work.done():
                work.result()
                return
        finally:
            if not work.done():
                work.cancel()
                await asyncio.wait((work,))
        if has_started:
            raise ClientDisconnect
        response = access_revoked("the access of this user was revoked").response
        await JSONResponse(response.to_json(), response.status)(scope, receive, send)
