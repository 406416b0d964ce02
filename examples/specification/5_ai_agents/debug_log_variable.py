"""Debug Hooks: debug logging, with ragkit's variable"""

# --- Head: names that the snippet leaves out ---
import os
import subprocess
import sys

program = "from ragkit import Agent, LocalProvider; Agent(LocalProvider()).run('hi')"

# --- The snippet ---
# Enable debug logging
os.environ["RAGKIT_LOG"] = "debug"

# --- Tail: a use of the snippet ---
log = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stderr
if not log:
    raise AssertionError("nothing is logged")
