"""An answer as a pydantic model; an answer that does not match the schema is sent back to the model for repair."""

from pydantic import BaseModel, Field

from ragkit import Agent, AgentConfig, ScriptedProvider


class Invoice(BaseModel):
    """What is read from an invoice."""

    number: str
    total_eur: float = Field(ge=0)
    items: list[str]


provider = ScriptedProvider(
    [
        '{"number": "A-17", "total_eur": -5, "items": ["chair"]}',
        '{"number": "A-17", "total_eur": 129.5, "items": ["chair"]}',
    ]
)

if __name__ == "__main__":
    agent = Agent(provider, config=AgentConfig(response_format=Invoice))
    invoice = agent.run("Invoice A-17: one chair, 129.50 euros.").parsed
    assert isinstance(invoice, Invoice)
    print(invoice.number, invoice.total_eur, invoice.items)
    print(provider.requests[-1].messages[-1].content)
