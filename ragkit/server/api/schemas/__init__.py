"""The bodies of requests and responses, for validation, the OpenAPI document and the output schemas of MCP tools."""
