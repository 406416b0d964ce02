"""Cited answers over a folder of documents: no key, no model download, no server.

Names are imported when they are first used, so that `import ragkit` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragkit.agent.agent import Agent as Agent
    from ragkit.agent.bot import Bot as Bot
    from ragkit.agent.cache import CacheStats as CacheStats
    from ragkit.agent.cache import InMemoryCache as InMemoryCache
    from ragkit.agent.cache_redis import RedisCache as RedisCache
    from ragkit.agent.config import AgentConfig as AgentConfig
    from ragkit.agent.definition import HandoffTool as HandoffTool
    from ragkit.agent.guardrails import Guardrail as Guardrail
    from ragkit.agent.memory import ConversationMemory as ConversationMemory
    from ragkit.agent.messages import Message as Message
    from ragkit.agent.messages import Role as Role
    from ragkit.agent.messages import ToolCall as ToolCall
    from ragkit.agent.policy import ToolPolicy as ToolPolicy
    from ragkit.agent.providers.anthropic_ import AnthropicProvider as AnthropicProvider
    from ragkit.agent.providers.base import Provider as Provider
    from ragkit.agent.providers.fallback import FallbackProvider as FallbackProvider
    from ragkit.agent.providers.gemini_ import GeminiProvider as GeminiProvider
    from ragkit.agent.providers.groq_ import GroqProvider as GroqProvider
    from ragkit.agent.providers.ollama_ import OllamaProvider as OllamaProvider
    from ragkit.agent.providers.openai_ import OpenAIProvider as OpenAIProvider
    from ragkit.agent.providers.scripted import LocalProvider as LocalProvider
    from ragkit.agent.result import AgentResult as AgentResult
    from ragkit.agent.runner import AgentRunner as AgentRunner
    from ragkit.agent.tools.base import Tool as Tool
    from ragkit.agent.tools.base import ToolContext as ToolContext
    from ragkit.agent.tools.base import tool as tool
    from ragkit.agent.tools.registry import ToolRegistry as ToolRegistry
    from ragkit.agent.trace import AgentTrace as AgentTrace
    from ragkit.agent.trace import StepType as StepType
    from ragkit.answer.agent import RAGAgent as RAGAgent
    from ragkit.answer.base import Answer as Answer
    from ragkit.answer.tool import RAGTool as RAGTool
    from ragkit.answer.tool import SemanticSearchTool as SemanticSearchTool
    from ragkit.embed.base import EmbeddingProvider as EmbeddingProvider
    from ragkit.errors import RagkitError as RagkitError
    from ragkit.index.report import IndexReport as IndexReport
    from ragkit.knowledge_base.indexing import IndexOptions as IndexOptions
    from ragkit.knowledge_base.knowledge_base import KnowledgeBase as KnowledgeBase
    from ragkit.load.document_loader import DocumentLoader as DocumentLoader
    from ragkit.pipeline.settings import Pipeline as Pipeline
    from ragkit.records import Chunk as Chunk
    from ragkit.records import Citation as Citation
    from ragkit.records import Document as Document
    from ragkit.records import Hit as Hit
    from ragkit.records import SearchResult as SearchResult
    from ragkit.split.text_splitters import RecursiveTextSplitter as RecursiveTextSplitter
    from ragkit.split.text_splitters import TextSplitter as TextSplitter
    from ragkit.store.vector_store import VectorStore as VectorStore
    from ragkit.usage.analytics import AgentAnalytics as AgentAnalytics
    from ragkit.usage.meter import AgentUsage as AgentUsage
    from ragkit.usage.meter import UsageStats as UsageStats
    from ragkit.usage.model_info import ModelInfo as ModelInfo

__version__ = "0.1.0"

_PLACES = {
    "Agent": "ragkit.agent.agent",
    "AgentAnalytics": "ragkit.usage.analytics",
    "AgentConfig": "ragkit.agent.config",
    "AgentResult": "ragkit.agent.result",
    "AgentRunner": "ragkit.agent.runner",
    "AgentTrace": "ragkit.agent.trace",
    "AgentUsage": "ragkit.usage.meter",
    "AnthropicProvider": "ragkit.agent.providers.anthropic_",
    "Answer": "ragkit.answer.base",
    "Bot": "ragkit.agent.bot",
    "CacheStats": "ragkit.agent.cache",
    "Chunk": "ragkit.records",
    "Citation": "ragkit.records",
    "ConversationMemory": "ragkit.agent.memory",
    "Document": "ragkit.records",
    "DocumentLoader": "ragkit.load.document_loader",
    "EmbeddingProvider": "ragkit.embed.base",
    "FallbackProvider": "ragkit.agent.providers.fallback",
    "GeminiProvider": "ragkit.agent.providers.gemini_",
    "GroqProvider": "ragkit.agent.providers.groq_",
    "Guardrail": "ragkit.agent.guardrails",
    "HandoffTool": "ragkit.agent.definition",
    "Hit": "ragkit.records",
    "IndexReport": "ragkit.index.report",
    "IndexOptions": "ragkit.knowledge_base.indexing",
    "InMemoryCache": "ragkit.agent.cache",
    "KnowledgeBase": "ragkit.knowledge_base.knowledge_base",
    "LocalProvider": "ragkit.agent.providers.scripted",
    "Message": "ragkit.agent.messages",
    "ModelInfo": "ragkit.usage.model_info",
    "OllamaProvider": "ragkit.agent.providers.ollama_",
    "OpenAIProvider": "ragkit.agent.providers.openai_",
    "Pipeline": "ragkit.pipeline.settings",
    "Provider": "ragkit.agent.providers.base",
    "RAGAgent": "ragkit.answer.agent",
    "RagkitError": "ragkit.errors",
    "RAGTool": "ragkit.answer.tool",
    "RecursiveTextSplitter": "ragkit.split.text_splitters",
    "RedisCache": "ragkit.agent.cache_redis",
    "Role": "ragkit.agent.messages",
    "SearchResult": "ragkit.records",
    "SemanticSearchTool": "ragkit.answer.tool",
    "StepType": "ragkit.agent.trace",
    "TextSplitter": "ragkit.split.text_splitters",
    "Tool": "ragkit.agent.tools.base",
    "tool": "ragkit.agent.tools.base",
    "ToolCall": "ragkit.agent.messages",
    "ToolContext": "ragkit.agent.tools.base",
    "ToolPolicy": "ragkit.agent.policy",
    "ToolRegistry": "ragkit.agent.tools.registry",
    "UsageStats": "ragkit.usage.meter",
    "VectorStore": "ragkit.store.vector_store",
}
"""Where each public name lives."""

__all__ = [
    "Agent",
    "AgentAnalytics",
    "AgentConfig",
    "AgentResult",
    "AgentRunner",
    "AgentTrace",
    "AgentUsage",
    "Answer",
    "AnthropicProvider",
    "Bot",
    "CacheStats",
    "Chunk",
    "Citation",
    "ConversationMemory",
    "Document",
    "DocumentLoader",
    "EmbeddingProvider",
    "FallbackProvider",
    "GeminiProvider",
    "GroqProvider",
    "Guardrail",
    "HandoffTool",
    "Hit",
    "InMemoryCache",
    "IndexOptions",
    "IndexReport",
    "KnowledgeBase",
    "LocalProvider",
    "Message",
    "ModelInfo",
    "OllamaProvider",
    "OpenAIProvider",
    "Pipeline",
    "Provider",
    "RAGAgent",
    "RAGTool",
    "RagkitError",
    "RecursiveTextSplitter",
    "RedisCache",
    "Role",
    "SearchResult",
    "SemanticSearchTool",
    "StepType",
    "TextSplitter",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolPolicy",
    "ToolRegistry",
    "UsageStats",
    "VectorStore",
    "__version__",
    "tool",
]


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module 'ragkit' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return __all__
