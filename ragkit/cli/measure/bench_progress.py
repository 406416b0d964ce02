"""Progress of a benchmark on stderr."""

from __future__ import annotations

from ragkit.bench.run import BenchEvent, StoreDropped
from ragkit.cli.progress import ProgressBar


class BenchProgress(ProgressBar):
    """Shows the progress of a benchmark. Use it in a `with` block."""

    def handle_event(self, event: BenchEvent) -> None:
        """Show one event."""
        if isinstance(event, StoreDropped):
            self.log(f"{event.label} dropped: {event.reason}")
        else:
            line = f"{event.number} of {event.total} steps: {event.label}, {event.action}"
            self.update(event.number, event.total, line, details=f"{event.label}: {event.action}")
