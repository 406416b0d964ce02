"""Names of other libraries, which a specification asks for; everything else of ragkit works without this package."""

from ragkit.compat.components import ConversationManager as ConversationManager
from ragkit.compat.components import CostTracker as CostTracker
from ragkit.compat.components import Groqqy as Groqqy
from ragkit.compat.components import ToolExecutor as ToolExecutor
from ragkit.compat.planning import AgentTeam as AgentTeam
from ragkit.compat.planning import MemoryManager as MemoryManager
from ragkit.compat.planning import Planner as Planner
from ragkit.compat.tools import ToolWrapper as ToolWrapper
