"""Extension Points: custom tools"""

# --- Head: names that the snippet leaves out ---
from ragkit import ToolRegistry
from ragkit.compat import Groqqy

# --- The snippet ---
def analyze_contracts(pdf_path: str) -> str:
    """Analyze legal contracts for key terms."""
    # Your implementation
    return "Analysis results..."

registry = ToolRegistry()
registry.register_function(analyze_contracts)
bot = Groqqy(tools=registry)
