"""The layout of the package: no import circles, and few modules imported by the short verbs."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from importlib import import_module
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import grimp
import pytest

import ragkit
from ragkit.distribution import DISTRIBUTION, install_command
from ragkit.knowledge_base.knowledge_base import KnowledgeBase

ROOT = Path(ragkit.__file__).parent
STDLIB_HEAVY = {"asyncio", "email.message", "http.client", "importlib.metadata", "ssl"}
VENDORS = {"charset_normalizer", "jsonschema_rs", "lxml", "onnxruntime", "openpyxl", "pydantic", "pypdfium2", "rich"}
NEVER = {
    "status": STDLIB_HEAVY
    | VENDORS
    | {"tokenizers", "ragkit.agent.agent", "ragkit.index.build", "ragkit.load.files.fetch"},
    "search": STDLIB_HEAVY
    | VENDORS - {"onnxruntime"}
    | {"ragkit.agent.agent", "ragkit.index.build", "ragkit.load.files.fetch"},
    "ask": {
        "charset_normalizer",
        "http.client",
        "jsonschema_rs",
        "lxml",
        "numpy.ma",
        "openpyxl",
        "pydantic",
        "pypdfium2",
        "rich",
    }
    | {"ragkit.index.build", "ragkit.load.files.fetch", "ragkit.load.document_loader", "ragkit.store.backends.memory"},
}
"""Verb -> modules that it must not import: each costs milliseconds at every start."""
MAX_MODULES = 25
GUIDES = ("docs/explanation/architecture.md", "docs/explanation/index-run.md", "docs/explanation/threats.md")
ARGUMENTS = {"status": [], "search": ["hedge"], "ask": ["When is the hedge cut?"]}


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a knowledge base, whose file is older than the index run."""
    directory = tmp_path_factory.mktemp("start")
    (directory / "garden.md").write_text("The hedge is cut in June and in September.\n", encoding="utf-8")
    subprocess.run([sys.executable, "-m", "ragkit", "index", "garden.md"], cwd=directory, check=True)
    return directory


@pytest.mark.parametrize("verb", sorted(NEVER))
def test_a_short_verb_imports_no_module_that_it_does_not_need(verb: str, indexed: Path) -> None:
    code = (
        "import sys\n"
        "from ragkit.cli import main\n"
        "try:\n"
        "    main(sys.argv[1:])\n"
        "finally:\n"
        "    print(*sorted(sys.modules), file=sys.stderr)\n"
    )
    command = [sys.executable, "-c", code, verb, *ARGUMENTS[verb]]
    result = subprocess.run(command, cwd=indexed, capture_output=True, text=True, check=True)
    imported = set(result.stderr.split())
    assert "ragkit.knowledge_base.knowledge_base" in imported
    assert imported & NEVER[verb] == set()


def test_there_is_no_import_circle_between_modules() -> None:
    graph = grimp.build_graph("ragkit", exclude_type_checking_imports=False)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    # modules that import nothing that is left are in no circle
    while removable := {module for module, targets in imports.items() if not targets & imports.keys()}:
        imports = {module: targets for module, targets in imports.items() if module not in removable}
    assert sorted(imports) == []


def test_no_folder_has_more_than_25_modules() -> None:
    modules = Counter(path.parent.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py"))
    assert {folder: number for folder, number in modules.items() if number > MAX_MODULES} == {}


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", *GUIDES])
def test_files_that_a_page_names_exist(page: str) -> None:
    """Whole paths, and names of modules anywhere in the package or the tests."""
    text = (ROOT.parent / page).read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:ragkit|tests|scripts|benchmarks|docs|configs)/[\w/.-]*|\w+\.py)`", text))
    assert named
    modules = {path.name for folder in (ROOT, ROOT.parent / "tests") for path in folder.rglob("*.py")}
    assert {name for name in named if not (ROOT.parent / name).exists() and name not in modules} == set()


def test_a_class_name_has_one_meaning() -> None:
    names: dict[str, list[str]] = {}
    for path in ROOT.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                names.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in names.items() if len(paths) > 1} == {}


def test_the_distribution_has_one_name() -> None:
    project = tomllib.loads((ROOT.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (project["name"], distribution(DISTRIBUTION).name) == (DISTRIBUTION, DISTRIBUTION)
    assert (install_command(), install_command("server")) == (
        "pip install ragkit-kb",
        "pip install 'ragkit-kb[server]'",
    )


def test_the_public_names_are_those_of_the_stub() -> None:
    stub = ast.parse((ROOT / "__init__.pyi").read_text(encoding="utf-8"))
    listed = {alias.asname for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert set(dir(ragkit)) == {*listed, "__version__"}
    for name in dir(ragkit):
        assert getattr(ragkit, name) is not None


def test_every_public_name_is_used_in_a_guide_and_the_moved_ones_warn() -> None:
    docs = ROOT.parent / "docs"
    pages = [page for page in docs.rglob("*.md") if "reference" not in page.parts]
    text = "\n".join(page.read_text(encoding="utf-8") for page in (*pages, ROOT.parent / "README.md"))
    assert [name for name in dir(ragkit) if name != "__version__" and not re.search(rf"\b{name}\b", text)] == []
    moved = {name: module for module, names in ragkit._MOVED.items() for name in names.split()}
    assert not moved.keys() & set(dir(ragkit))
    for name, module in moved.items():
        with pytest.warns(DeprecationWarning, match=f"ragkit.{name} has moved: use `from {module} import {name}`"):
            assert getattr(ragkit, name) is getattr(import_module(module), name)


def test_without_extras_all_names_are_found_and_use_says_what_to_install() -> None:
    program = """
import inspect, pydoc, sys
sys.modules.update(dict.fromkeys(("anthropic", "mcp", "openai", "redis")))
import ragkit
from ragkit import *
assert hasattr(ragkit, "AnthropicProvider") and not hasattr(ragkit, "Nothing")
assert "AnthropicProvider" in pydoc.render_doc(ragkit) and len(inspect.getmembers(ragkit)) > 75
derive = lambda: type("Mine", (RedisCache,), {})
for use in (AnthropicProvider, mcp_tools, derive, lambda: OpenAIProvider("x", api_key="y")):
    try:
        use()
    except MissingExtra as error:
        print(error)
"""
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    expected = ["anthropic", "mcp", "redis", "openai"]
    assert re.findall(r"needs an optional dependency: .*\[(\w+)\]", answer.stdout) == expected


@pytest.mark.parametrize("folder", ["benchmarks", "scripts"])
def test_programs_outside_the_package_import_names_that_exist(folder: str) -> None:
    missing = []
    for path in (ROOT.parent / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "ragkit":
                module = import_module(node.module)
                names = [alias.name for alias in node.names if not _is_in(module, alias.name)]
                missing += [f"{path.name}:{node.lineno}: {node.module}.{name}" for name in names]
    assert missing == []


def _is_in(module: ModuleType, name: str) -> bool:
    is_package = hasattr(module, "__path__")
    return hasattr(module, name) or (is_package and find_spec(f"{module.__name__}.{name}") is not None)


def test_a_knowledge_base_has_few_public_methods() -> None:
    names = [name for name in vars(KnowledgeBase) if not name.startswith("_")]
    assert len(names) <= 25, "what only some callers need belongs to a session, the writer or the location"
