"""Remove the keys of services from the environment: no test sends a real request; `tests/live` restores them."""

from __future__ import annotations

import os

from ragkit.agent.providers.credentials import HOST_VARIABLES, KEY_VARIABLES

VARIABLES = (*(name for names in KEY_VARIABLES.values() for name in names), *HOST_VARIABLES.values())
SAVED_VARIABLES = {name: os.environ.pop(name) for name in VARIABLES if name in os.environ}
