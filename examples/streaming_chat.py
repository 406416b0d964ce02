"""A conversation with memory, streamed word by word, and what it used."""

from ragkit import Agent, ConversationMemory, ScriptedProvider
from ragkit.agent.events import RunEnded, TextChunk

provider = ScriptedProvider(["Nice to meet you, Ada.", "Your name is Ada."])
agent = Agent(provider, memory=ConversationMemory(max_messages=20))

if __name__ == "__main__":
    for question in ("My name is Ada.", "What is my name?"):
        print(f"> {question}")
        for event in agent.stream(question):
            if isinstance(event, TextChunk):
                print(event.text, end="", flush=True)
            elif isinstance(event, RunEnded):
                print(f"\n({event.result.usage.total_tokens} tokens)")
    print(len(provider.requests[1].messages), "messages were sent with the second question")
