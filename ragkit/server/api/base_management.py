"""Routes that make, rename and delete the knowledge bases of a folder, for the owner of the server.

After a change the server starts again: running answers have the time of a stop to end, jobs go on afterwards, and new
connections wait.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request

from ragkit.server.api.dependencies import AppContext, ContextDep
from ragkit.server.api.schemas.management import BaseNameBody
from ragkit.server.api.schemas.status import BasesSchema
from ragkit.server.base_folder import BaseFolder
from ragkit.server.concurrency import run_in_thread
from ragkit.server.http_errors import ErrorResponse, RequestRejected, invalid_request, not_found, service_unavailable
from ragkit.server.principals import CURRENT, require_owner_role, visible_kbs

RESTART_DELAY_S = 0.2
"""Seconds in which the response is sent."""


async def require_server_owner() -> None:
    """Raises RequestRejected for all but the owner of the server: users are those of one knowledge base."""
    require_owner_role()
    principal = CURRENT.get()
    if principal is None or principal.base is not None:
        message = "only the first token of the server may change its knowledge bases"
        raise RequestRejected(ErrorResponse(403, message, "not_owner", "permission_error"))


router = APIRouter()
ServerOwner = Depends(require_server_owner)
BaseName = Annotated[str, Path(max_length=40, description="The name of a knowledge base.")]


@router.get("/bases", response_model=BasesSchema)
async def list_bases(request: Request, context: ContextDep) -> Any:
    """List the knowledge bases of the server by name, the default first; none if it has one without a name."""
    principal = CURRENT.get()
    is_owner = principal is not None and principal.role == "owner" and principal.base is None
    managed = is_owner and request.app.state.base_folder is not None
    return {"bases": visible_kbs(context.bases), "current": context.name, "managed": managed}


@router.post("/bases", response_model=BasesSchema, dependencies=[ServerOwner])
async def make_base(request: Request, context: ContextDep, body: BaseNameBody) -> Any:
    """Make an empty knowledge base, and start the server again. Takes `ragkit serve --kb-folder`."""
    return await _change(request, context, lambda folder: folder.make(body.name))


@router.patch("/bases/{name}", response_model=BasesSchema, dependencies=[ServerOwner])
async def rename_base(request: Request, context: ContextDep, name: BaseName, body: BaseNameBody) -> Any:
    """Rename a knowledge base, and start the server again. Takes `ragkit serve --kb-folder`."""
    return await _change(request, context, lambda folder: folder.rename(name, body.name), name)


@router.delete("/bases/{name}", response_model=BasesSchema, dependencies=[ServerOwner])
async def delete_base(request: Request, context: ContextDep, name: BaseName) -> Any:
    """Delete a knowledge base with its index, uploaded files, users and conversations, and start the server again.

    Takes `ragkit serve --kb-folder`. Documents of other folders stay where they are.
    """
    return await _change(request, context, lambda folder: folder.delete(name), name)


async def _change(
    request: Request, context: AppContext, change: Callable[[BaseFolder], None], name: str | None = None
) -> Any:
    """Change the names, and end this process in good order, after which its command starts it again."""
    folder: BaseFolder | None = request.app.state.base_folder
    if folder is None:
        message = "the names of the knowledge bases are options of this server: start it with --kb-folder FOLDER"
        raise invalid_request(message, code="not_managed", status=409)
    if folder.changed:
        raise service_unavailable("the server starts again after another change")
    if name is not None and name not in context.bases:
        raise not_found("knowledge base", "kb_not_found")
    await run_in_thread(lambda: change(folder))

    def end_server() -> None:
        folder.ends_server = True
        signal.raise_signal(signal.SIGTERM)

    asyncio.get_running_loop().call_later(RESTART_DELAY_S, end_server)
    return {"bases": folder.names(), "current": context.name, "managed": True}
