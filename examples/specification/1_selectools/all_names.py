"""Module Dependencies: the public classes"""

# --- The snippet ---
from ragkit import (
    Agent,
    AgentAnalytics,
    AgentConfig,
    AgentUsage,
    Cache,
    CacheKeyBuilder,
    CacheStats,
    ConversationMemory,
    Document,
    DocumentLoader,
    EmbeddingProvider,
    InMemoryCache,
    Message,
    PromptBuilder,
    Provider,
    RAGAgent,
    RAGTool,
    RecursiveTextSplitter,
    RedisCache,
    Role,
    SearchResult,
    SemanticSearchTool,
    TextSplitter,
    Tool,
    ToolCall,
    ToolCallParser,
    ToolRegistry,
    UsageStats,
    VectorStore,
    tool,
)
from ragkit.models import ModelInfo, OpenAI

model = OpenAI.GPT_4O
