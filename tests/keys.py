"""Keys of services are taken out of the environment, so that no test asks a real one; `tests/live` puts them back."""

from __future__ import annotations

import os

from ragkit.agent.providers.keys import HOSTS, KEYS

VARIABLES = (*(name for names in KEYS.values() for name in names), *HOSTS.values())
SET_ASIDE = {name: os.environ.pop(name) for name in VARIABLES if name in os.environ}
