"""Make the names of uploaded files safe: relative paths that stay below a folder on every file system.

Nothing here opens a file.
"""

from __future__ import annotations

import re
import unicodedata
from hashlib import blake2b

from ragkit.load.files.secret_files import is_secret_name, secret_reason
from ragkit.load.files.walk import IGNORE_FILES, KB_MARKER_FILE
from ragkit.server.http_errors import invalid_request

MAX_NAME_BYTES = 200
"""Maximum bytes of one part of a name in UTF-8; file systems allow 255."""
MAX_PARTS = 16
"""Maximum folders of a name, with the file itself."""
_SEPARATORS = re.compile(r"[/\\]+")
_FORBIDDEN = re.compile(r'[<>:"|?*]')
"""Characters with a meaning for some file system."""
_DEVICE_NAMES = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])(?:\.|$)", re.IGNORECASE)
"""Names of devices, with any suffix."""
_RESERVED_NAMES = frozenset({KB_MARKER_FILE, *IGNORE_FILES})


def own_folder(user: str) -> str:
    """The folder of what a user uploads who may not read everything. No name of a client leads there."""
    folder = f"@{unicodedata.normalize('NFC', user)}"
    if len(folder.encode()) <= MAX_NAME_BYTES:
        return folder
    return f"@{blake2b(folder.encode(), digest_size=16).hexdigest()}"


def safe_name(name: str) -> str:
    """The relative path below the folder of uploads for a name as the client sent it, with `/`.

    Parts such as `..` and empty ones are left out, control characters too; characters and names with a meaning for some
    file system are replaced, and leading dots removed: hidden files are not indexed.

    Raises RequestRejected: nothing is left, the name is too deep, is not Unicode, or looks like that of a secret.
    """
    if any("\ud800" <= character <= "\udfff" for character in name):
        raise invalid_request("name has a lone surrogate: send valid Unicode", "name")
    parts = [part for part in _SEPARATORS.split(unicodedata.normalize("NFC", name)) if part]
    if secrets := [part for part in parts if is_secret_name(part.strip())]:
        raise invalid_request(f"{secrets[0][:80]!r} {secret_reason(secrets[0])}", "name", "secret_file")
    safe = [part for part in map(_safe_part, parts) if part]
    safe[:1] = [f"_{part}" if part.startswith("@") else part for part in safe[:1]]  # see `own_folder`
    if not safe:
        raise invalid_request(f"name must be the name of a file (got {name[:80]!r})", "name")
    if len(safe) > MAX_PARTS:
        raise invalid_request(f"name must have at most {MAX_PARTS} parts (got {len(safe)})", "name", "too_long")
    if secrets := [part for part in safe if is_secret_name(part)]:
        raise invalid_request(f"{secrets[0][:80]!r} {secret_reason(secrets[0])}", "name", "secret_file")
    return "/".join(safe)


def _safe_part(part: str) -> str:
    """One part of a name; empty if nothing is left of it."""
    # "C" are control and format characters, which include those that reverse the direction of text; "Z" are separators
    text = "".join(" " if unicodedata.category(c)[0] == "Z" else c for c in part if unicodedata.category(c)[0] != "C")
    text = unicodedata.normalize("NFC", text)  # again: a mark may follow a letter that did not
    text = _FORBIDDEN.sub("_", text).strip(" .").lstrip("~ .")
    if _DEVICE_NAMES.match(text) or text.lower() in _RESERVED_NAMES:
        text = f"_{text}"
    if len(text.encode()) <= MAX_NAME_BYTES:
        return text
    stem, dot, suffix = text.rpartition(".")
    if not dot or len(suffix.encode()) > 20:
        stem, suffix = text, ""
    room = MAX_NAME_BYTES - len((dot + suffix).encode()) if suffix else MAX_NAME_BYTES
    cut = stem.encode()[:room].decode("utf-8", "ignore").rstrip(" .")
    return f"{cut}.{suffix}" if suffix else cut
