"""File names that keep secrets: keys, passwords, tokens. Such files are never read."""

from __future__ import annotations

import re
from fnmatch import translate

PATTERNS = (
    "*.asc.key",
    "*.gpg",
    "*.jks",
    "*.kdb",
    "*.kdbx",
    "*.key",
    "*.keystore",
    "*.p12",
    "*.pem",
    "*.pfx",
    "*.ppk",
    "*.tfstate",
    "*.tfstate.backup",
    ".dockercfg",
    ".env",
    ".env.*",
    ".envrc",
    ".git-credentials",
    ".htpasswd",
    ".my.cnf",
    ".netrc",
    ".npmrc",
    ".pgpass",
    ".pypirc",
    ".vault-token",
    "_netrc",
    "client_secret*.json",
    "credentials",
    "credentials.json",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "id_rsa",
    "kubeconfig",
    "secrets.json",
    "secrets.toml",
    "secrets.yaml",
    "secrets.yml",
    "service-account*.json",
    "service_account*.json",
    "wallet.dat",
)
"""Shell patterns of whole names, in lower case."""

HARMLESS = frozenset({".env.dist", ".env.example", ".env.sample", ".env.template"})

_SECRET = re.compile("|".join(translate(pattern) for pattern in PATTERNS))


def looks_secret(name: str) -> bool:
    """Whether a file of this name keeps a secret, by its name alone."""
    low = name.lower()
    return _SECRET.match(low) is not None and low not in HARMLESS
