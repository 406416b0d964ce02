"""Context Isolation Pattern"""

# --- Head: names that the snippet leaves out ---
from copy import deepcopy as deep_copy_context

from ragkit import Agent, ScriptedProvider, ToolCall, ToolContext, tool
from ragkit.agent.result import RunContext


@tool
def visit(tool_context: ToolContext) -> str:
    """Visit."""
    tool_context.context["visits"].append(2)
    return "done"


def execute_with_context(run_context):
    return Agent(ScriptedProvider([ToolCall("visit"), "done"]), [visit]).run("input", context=run_context)

# --- The snippet ---
# Thread-safe execution flow
def run(input, context={}):
    # 1. Deep copy context for isolation
    context_copy = deep_copy_context(context)

    # 2. Create execution wrapper
    run_context = RunContext(context_copy)

    # 3. Execute with isolated state
    result = execute_with_context(run_context)

    # 4. Return serializable result
    return result

# --- Tail: a use of the snippet ---
context = {"visits": [1]}
result = run("input", context)
