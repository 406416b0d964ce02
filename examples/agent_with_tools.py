"""A team of two agents: three tools, and a handoff from the front desk to the planner.

The provider is scripted, so the program runs offline. Replace it with `OpenAIProvider(...)` for a real model.
"""

from ragkit import Agent, AgentRunner, ScriptedProvider, ToolCall, tool


@tool
def distance_km(origin: str, destination: str) -> float:
    """Distance between two cities in km."""
    return {("Bern", "Zurich"): 95.0}[origin, destination]


@tool
def train_minutes(km: float, speed_kmh: float = 100.0) -> int:
    """Travel time by train in minutes."""
    return round(60 * km / speed_kmh)


@tool
def book(destination: str, seats: int = 1) -> str:
    """Book seats on the next train."""
    return f"{seats} seat(s) to {destination}: booked"


planner_model = ScriptedProvider(
    [
        [ToolCall("distance_km", {"origin": "Bern", "destination": "Zurich"})],
        [ToolCall("train_minutes", {"km": 95})],
        [ToolCall("book", {"destination": "Zurich", "seats": 2})],
        "The train takes 57 minutes. Two seats are booked.",
    ]
)
desk_model = ScriptedProvider([[ToolCall("handoff_to_planner", {"reason": "a trip"})]])

planner = Agent(planner_model, [distance_km, train_minutes, book], name="planner", description="Plans and books trips.")
desk = Agent(desk_model, name="desk", handoffs=[planner])

if __name__ == "__main__":
    result = AgentRunner([desk, planner]).run("Two of us go from Bern to Zurich.")
    for call in result.tool_calls:
        print(f"{call.name}({', '.join(f'{key}={value!r}' for key, value in call.arguments.items())})")
    print(result.content)
