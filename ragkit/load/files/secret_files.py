"""Detect secrets by file name (keys, passwords, tokens) and by the first line of a private key.

Files with such names are never opened; files that start with a private key are never loaded.
"""

from __future__ import annotations

import re
from fnmatch import translate

SENSITIVE_FILE_PATTERNS = """
    *.asc.key *.gpg *.jks *.kdb *.kdbx *.key *.keystore *.p12 *.pem *.pfx *.ppk *.tfstate *.tfstate.backup
    .dockercfg .env .env.* .envrc .git-credentials .htpasswd .my.cnf .netrc .npmrc .pgpass .pypirc .vault-token
    _netrc client_secret*.json credentials credentials.json id_dsa id_ecdsa id_ed25519 id_rsa kubeconfig
    secrets.json secrets.toml secrets.yaml secrets.yml service-account*.json service_account*.json wallet.dat
"""
"""Shell patterns of file names, in lower case, separated by white space."""

HARMLESS_NAMES = frozenset({".env.dist", ".env.example", ".env.sample", ".env.template"})

_SECRET_NAME = re.compile("|".join(translate(pattern) for pattern in SENSITIVE_FILE_PATTERNS.split()))
_PRIVATE_KEY = re.compile(rb"(?:\xef\xbb\xbf)?\s{0,100}-----BEGIN (?:[A-Z]{2,10} ){0,2}PRIVATE KEY(?: BLOCK)?-----")


def is_secret_name(name: str) -> bool:
    """Whether a file name is typical of secrets."""
    low = name.lower()
    return _SECRET_NAME.match(low) is not None and low not in HARMLESS_NAMES


def secret_reason(name: str) -> str:
    """Why a file with such a name is skipped."""
    if name.lower().endswith(".key"):  # never opened, so it is not known which
        return "looks like a secret (a Keynote presentation must be exported as PDF)"
    return "looks like a secret"


def has_private_key(data: bytes) -> bool:
    """Whether a file starts with a private key in text form (PEM, OpenSSH, PGP)."""
    return _PRIVATE_KEY.match(data) is not None
