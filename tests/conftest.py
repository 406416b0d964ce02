"""What holds for every test."""

from __future__ import annotations

import signal

import tests.keys  # noqa: F401 - takes the keys of services out of the environment

# A background job of a shell inherits an ignored SIGINT, and so would every process that a test starts: Ctrl-C would
# not reach them. A handler here is reset to the default when a process is started.
signal.signal(signal.SIGINT, signal.default_int_handler)
