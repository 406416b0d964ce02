"""Layer 2: Agent, the core algorithm"""

# --- Head: names that the snippet leaves out ---
from types import SimpleNamespace

from ragkit import AgentResult, ScriptedProvider, ToolRegistry
from ragkit.compat import ConversationManager, CostTracker, ToolExecutor

tool_calls_made = 0
usage = {"iterations": 0, "total_cost": 0.0, "tool_calls_made": 0, "conversation": []}


class Agent:
    """The parts that the algorithm uses."""

    max_iterations = 10
    conversation, tracker, executor = ConversationManager(), CostTracker(), ToolExecutor(ToolRegistry())
    provider = SimpleNamespace(get_cost=lambda usage: 0.0)

    def _call_llm(self):
        return SimpleNamespace(text="It is 3.", tool_calls=[], usage=None)

# --- The snippet ---
def run(self, prompt: str) -> AgentResult:
    """
    THINK → ACT → OBSERVE loop until task complete.
    """
    self.conversation.add_user(prompt)
    iteration = 0

    while iteration < self.max_iterations:
        iteration += 1

        # THINK: What should I do next?
        response = self._call_llm()

        # Track cost
        cost = self.provider.get_cost(response.usage)
        self.tracker.add(cost, {"iteration": iteration})

        # ACT: Execute tools if LLM requested them
        if response.tool_calls:
            # Execute all tools
            for tool_call in response.tool_calls:
                # OBSERVE: Get tool result
                result = self.executor.execute(tool_call)

                # Add to conversation (LLM sees this next iteration)
                self.conversation.add_tool_result(tool_call['id'], result)

            # Continue loop - LLM will process results
            continue

        # No tool calls = agent is done
        self.conversation.add_assistant(response.text)

        return AgentResult(
            response=response.text,
            iterations=iteration,
            total_cost=self.tracker.get_total(),
            tool_calls_made=tool_calls_made,
            conversation=self.conversation.get_history()
        )

    # Max iterations reached
    return AgentResult(response="[Max iterations reached]", **usage)

# --- Tail: a use of the snippet ---
Agent.run = run
result = Agent().run("What is 1 + 2?")
