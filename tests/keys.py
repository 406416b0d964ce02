"""Keys of services are taken out of the environment, so that no test asks a real one; `tests/live` puts them back."""

from __future__ import annotations

import os

from ragkit.agent.providers.credentials import HOST_VARIABLES, KEY_VARIABLES

VARIABLES = (*(name for names in KEY_VARIABLES.values() for name in names), *HOST_VARIABLES.values())
SET_ASIDE = {name: os.environ.pop(name) for name in VARIABLES if name in os.environ}
