"""Errors of reading a damaged SQLite database. Imports nothing of ragkit."""

from __future__ import annotations

import sqlite3

DATABASE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""UnicodeDecodeError: a message of SQLite quotes the name of a damaged table, which is no UTF-8."""
