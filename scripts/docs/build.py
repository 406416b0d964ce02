"""Build the documentation site: write the reference pages, run zensical strictly, check what the pages load.

`python scripts/docs/build.py [--clean]` in the root of the repository. Exit code 1: a broken link, a reference without
documentation, a missing file, or a page that loads something from elsewhere; each is printed.
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
"""Addresses in the theme's scripts, of features that are off: mermaid, glightbox, pyodide."""


class LoadedFiles(HTMLParser):
    """The addresses that a page makes a browser load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """`src` of every tag, `href` of `link`."""
        wanted = {"link": "href", "a": ""}.get(tag, "src")
        canonical = tag == "link" and ("rel", "canonical") in attrs
        self.found += [value for key, value in attrs if key == wanted and value and not canonical]


def problems(page: Path) -> list[str]:
    """What a page loads from elsewhere, and what it loads that does not exist."""
    found = []
    for address in LoadedFiles(page.read_text()).found:
        parts = urlsplit(address)
        if parts.scheme not in ("", "data", "about") or parts.netloc:
            found.append(f"{page}: loads {address}")
        elif parts.path and not parts.path.startswith("/") and not (page.parent / unquote(parts.path)).exists():
            found.append(f"{page}: {address} is missing")
    return found


def main() -> None:
    """Build, print the problems, exit."""
    reference.main()
    build = [str(Path(sys.executable).with_name("zensical")), "build", "--strict", *sys.argv[1:]]
    done = subprocess.run(build, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    print(done.stdout, end="")
    for script in SITE.glob("assets/javascripts/**/*.js"):
        script.write_text(CDN.sub("about:blank", script.read_text()))
    found = [line for line in done.stdout.splitlines() if line.startswith("griffe:")]  # zensical lets these pass
    found += [one for page in SITE.rglob("*.html") if page.name != "404.html" for one in problems(page)]
    print(*found, sep="\n", file=sys.stderr)
    sys.exit(done.returncode or bool(found))


if __name__ == "__main__":
    main()
