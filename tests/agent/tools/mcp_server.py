"""An MCP server for tests, built with the SDK: `python -m tests.agent.tools.mcp_server` serves it over stdio."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated

from mcp.server.mcpserver import Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import EmbeddedResource, ResourceLink, TextContent, TextResourceContents
from pydantic import BaseModel, Field

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63f8ff"
    "ff3f0005fe02fea7d5ab0c0000000049454e44ae426082"
)


class Place(BaseModel):
    """A place on a map."""

    x: Annotated[int, Field(ge=0, description="columns from the left")]
    y: int = 0


def create_server(name: str = "small") -> MCPServer:
    """The server."""
    server = MCPServer(name, log_level="CRITICAL")

    @server.tool()
    def add(a: int, b: int) -> str:
        """Add two numbers."""
        return str(a + b)

    @server.tool()
    def measure(station: int) -> str:
        """The measurement of a station."""
        return f"station {station}: 12 degrees"

    @server.tool()
    def distance(start: Place, end: Place) -> dict[str, int]:
        """The distance between two places."""
        return {"x": abs(start.x - end.x), "y": abs(start.y - end.y)}

    @server.tool(name="files/list.all")
    def list_all() -> list[str]:
        """List the files."""
        return ["a.txt", "b.txt"]

    @server.tool(name="files:list all")
    def list_again() -> str:
        """List the files once more."""
        return "c.txt"

    @server.tool(structured_output=False)
    def picture() -> list[object]:
        """Draw a picture."""
        text = TextResourceContents(uri="note://1", text="the note")
        return [
            "a dot",
            Image(data=PIXEL, format="png"),
            EmbeddedResource(resource=text),
            ResourceLink(uri="note://2", name="more"),
            TextContent(text="the end"),
        ]

    @server.tool()
    def broken(reason: str) -> str:
        """Fail."""
        raise ToolError(reason)

    @server.tool()
    async def slow(seconds: float, cancelled_file: str = "") -> str:
        """Answer late; if cancelled, write the file."""
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            if cancelled_file:
                Path(cancelled_file).write_text("cancelled")
            raise
        return "late"

    @server.tool()
    def process_id() -> int:
        """The id of the process of this server."""
        return os.getpid()

    @server.tool()
    def die() -> str:
        """End the process of this server."""
        os._exit(3)

    @server.tool()
    def variable(name: str) -> str:
        """An environment variable."""
        return os.environ.get(name, "(unset)")

    return server


if __name__ == "__main__":
    create_server(*sys.argv[1:]).run("stdio")
