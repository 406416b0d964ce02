"""Build the documentation site: write the reference pages, run zensical in strict mode, check the loaded files.

`python scripts/docs/build.py [--clean]` in the root of the repository. Exit code 1: a broken link, a reference without
documentation, a missing file, or a page that loads an external file; each is printed.
"""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import reference

SITE = Path("site")
CDN = re.compile(r"https://(?:unpkg\.com|cdn\.jsdelivr\.net)/[^\"'`\s]*")
"""CDN URLs in the theme's scripts, of disabled features: mermaid, glightbox, pyodide."""


class LoadedFiles(HTMLParser):
    """The URLs that a browser loads for a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.urls: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect `src` of every tag and `href` of `link`."""
        attribute = {"link": "href", "a": ""}.get(tag, "src")
        canonical = tag == "link" and ("rel", "canonical") in attrs
        self.urls += [value for key, value in attrs if key == attribute and value and not canonical]


def problems(page: Path) -> list[str]:
    """External and missing files that a page loads."""
    messages = []
    for url in LoadedFiles(page.read_text()).urls:
        parts = urlsplit(url)
        if parts.scheme not in ("", "data", "about") or parts.netloc:
            messages.append(f"{page}: loads {url}")
        elif parts.path and not parts.path.startswith("/") and not (page.parent / unquote(parts.path)).exists():
            messages.append(f"{page}: {url} is missing")
    return messages


def main() -> None:
    """Build, print the problems, exit."""
    reference.main()
    build = [str(Path(sys.executable).with_name("zensical")), "build", "--strict", *sys.argv[1:]]
    process = subprocess.run(build, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    print(process.stdout, end="")
    for script in SITE.glob("assets/javascripts/**/*.js"):
        script.write_text(CDN.sub("about:blank", script.read_text()))
    messages = [line for line in process.stdout.splitlines() if line.startswith("griffe:")]  # zensical ignores these
    pages = [page for page in SITE.rglob("*.html") if page.name != "404.html"]
    messages += [message for page in pages for message in problems(page)]
    print(*messages, sep="\n", file=sys.stderr)
    sys.exit(process.returncode or bool(messages))


if __name__ == "__main__":
    main()
