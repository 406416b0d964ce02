"""Text files: plain text, Markdown, source code, notebooks, subtitles."""
