"""Use a knowledge base from an MCP client, over stdio, with the official SDK (needs the extra `mcp`)."""

import asyncio
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main(kb: str, question: str) -> None:
    server = StdioServerParameters(command=sys.executable, args=["-m", "ragkit", "mcp", "--kb", kb])
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        tools = await session.list_tools()
        print("tools:", ", ".join(sorted(tool.name for tool in tools.tools)))
        result = await session.call_tool("ask", {"question": question})
        print(result.content[0].text)  # type: ignore[union-attr]


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
