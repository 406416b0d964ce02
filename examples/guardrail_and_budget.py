"""A guardrail that redacts e-mail addresses, and a budget in tokens that ends a run with its partial result."""

import re

from ragkit import Agent, AgentConfig, BudgetExceeded, Guardrails, Limits, ScriptedProvider, ToolCall, Verdict, tool


class RedactEmails:
    """Implements `ragkit.Guardrail`."""

    name = "redact-emails"

    def check(self, text: str) -> Verdict:
        redacted = re.sub(r"[\w.]+@[\w.]+", "[email]", text)
        return Verdict() if redacted == text else Verdict("rewrite", reason="e-mail address", text=redacted)


@tool
def look_up(topic: str) -> str:
    """Look a topic up."""
    return f"{topic}: " + "a long article. " * 200


if __name__ == "__main__":
    config = AgentConfig(guardrails=Guardrails(input=[RedactEmails()], output=[RedactEmails()]))
    agent = Agent(ScriptedProvider(["Write to help@example.org."]), config=config)
    print(agent.run("Whom do I ask?").content)

    calls = [[ToolCall("look_up", {"topic": str(number)})] for number in range(10)]
    agent = Agent(ScriptedProvider([*calls, "done"]), [look_up], config=AgentConfig(limits=Limits(max_tokens=2_000)))
    try:
        agent.run("Read everything.")
    except BudgetExceeded as error:
        print(error)
