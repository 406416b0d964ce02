"""Extension Points: custom components"""

# --- Head: names that the snippet leaves out ---
from ragkit import Agent, ScriptedProvider
from ragkit.compat import ConversationManager



class Database:
    """A table of messages."""

    def __init__(self):
        self.rows = []

    def insert(self, row):
        self.rows.append(row)

    def query(self, statement):
        return self.rows


provider, tools, db = ScriptedProvider(["Hi there!"]), [], Database()

# --- The snippet ---
class DatabaseConversationManager(ConversationManager):
    """Store conversation in database instead of memory."""

    def __init__(self, db_connection):
        self.db = db_connection

    def add_user(self, message):
        self.db.insert({"role": "user", "content": message})

    def get_history(self):
        return self.db.query("SELECT * FROM messages")

# Use it
agent = Agent(provider, tools)
agent.conversation = DatabaseConversationManager(db)

# --- Tail: a use of the snippet ---
agent.run("Hello")
if not db.rows:
    raise AssertionError("the database has no messages")
