"""A loader of your own: each event of a calendar file (.ics) becomes a document with filterable metadata."""

from pathlib import Path
from tempfile import TemporaryDirectory

from ragkit import Document, RAGAgent

CALENDAR = """\
BEGIN:VCALENDAR
BEGIN:VEVENT
SUMMARY:Fire drill
DTSTART:20260312T100000
LOCATION:Assembly point 2, behind the workshop
END:VEVENT
BEGIN:VEVENT
SUMMARY:Annual meeting
DTSTART:20260930T170000
LOCATION:Library
END:VEVENT
END:VCALENDAR
"""


def load_calendar(path: Path) -> list[Document]:
    """One document for each event."""
    documents = []
    for block in path.read_text(encoding="utf-8").split("BEGIN:VEVENT")[1:]:
        fields = dict(line.split(":", 1) for line in block.partition("END:VEVENT")[0].split("\n") if ":" in line)
        day = fields["DTSTART"][:8]
        text = f"{fields['SUMMARY']} on {day[:4]}-{day[4:6]}-{day[6:]}. Location: {fields['LOCATION']}."
        documents.append(Document(text, {"year": int(day[:4]), "month": int(day[4:6])}, source=f"{path.name}#{day}"))
    return documents


if __name__ == "__main__":
    with TemporaryDirectory() as directory:
        file = Path(directory, "events.ics")
        file.write_text(CALENDAR, encoding="utf-8")
        agent = RAGAgent.from_documents(load_calendar(file))
    answer = agent.ask("Where is the assembly point of the fire drill?")
    print(answer.text)
    print(answer.citations[0].source)
