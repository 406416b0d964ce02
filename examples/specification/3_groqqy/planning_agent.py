"""Extension Points: agent subclasses"""

# --- Head: names that the snippet leaves out ---
from ragkit import Agent, ScriptedProvider

provider = ScriptedProvider(["one", "two"])

# --- The snippet ---
class PlanningAgent(Agent):
    """Agent with explicit planning phase before acting."""

    def run(self, prompt):
        # 1. Planning phase
        plan = self._create_plan(prompt)

        # 2. Execution phase
        for step in plan:
            result = super().run(step)

        return result

    def _create_plan(self, prompt):
        # LLM call to create plan
        pass

# --- Tail: a use of the snippet ---
class TwoSteps(PlanningAgent):
    """`_create_plan` of the snippet is empty."""

    def _create_plan(self, prompt):
        return [f"{prompt}: step {number}" for number in (1, 2)]


result = TwoSteps(provider).run("go")
