"""`Pipeline`: from a file, from code, and to YAML."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragkit.agent.providers import PROVIDERS
from ragkit.config.convert import OptionsReader, is_required, settable_fields
from ragkit.config.yaml_nodes import ConfigProblem, MappingNode
from ragkit.config.yaml_parser import create_source, parse_yaml
from ragkit.embed.options import HashingOptions, MiniLMOptions
from ragkit.errors import PipelineError
from ragkit.load.files.walk import FolderOptions
from ragkit.load.options import MarkdownOptions, PypdfOptions
from ragkit.pipeline import discovery
from ragkit.pipeline.assemble import PipelineComponents
from ragkit.pipeline.components import AnswerOptions, ComponentConfig
from ragkit.pipeline.sections import SECTIONS, Section
from ragkit.pipeline.serialize import options_to_dict, to_flow_yaml
from ragkit.pipeline.settings import Pipeline
from ragkit.retrieve.options import HybridOptions
from ragkit.store.options import MemoryOptions

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def test_the_default_is_the_shipped_file_of_that_name() -> None:
    assert Pipeline.default() == Pipeline.load(discovery.pipelines_folder() / "default.yaml", environ={})
    assert Pipeline.default().name == "default"


def test_the_default_pipeline_has_the_documented_components() -> None:
    default = Pipeline.default()
    assert default.loaders == (ComponentConfig("folder", FolderOptions()),)
    assert [choice.name for choice in default.splitters] == ["recursive"]
    assert default.embedder == ComponentConfig("minilm", MiniLMOptions())
    assert default.store.name == "sqlite"
    assert default.retriever == ComponentConfig("hybrid", HybridOptions())
    assert default.answer == AnswerOptions("auto", 6, 0.05)


def test_the_default_ignores_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGKIT_PROFILE", "production")
    assert Pipeline.default().name == "default"


@pytest.mark.parametrize("name", discovery.pipeline_names())
def test_every_shipped_pipeline_loads_validates_and_round_trips(name: str) -> None:
    environ = dict.fromkeys(variables_of(name), "value")
    pipeline = Pipeline.load(name, environ=environ)
    for check in (pipeline.validate, lambda: Pipeline.load(name, environ=environ, thorough=True)):
        try:
            check()
        except PipelineError as error:
            assert re.findall(r"ragkit-kb\[(.+)\]", str(error)) == ["sentence-transformers"]
    assert Pipeline.from_yaml(pipeline.to_yaml(), environ=environ) == pipeline
    assert Pipeline.from_yaml(pipeline.to_yaml(complete=True), environ=environ) == pipeline


@pytest.mark.parametrize("name", discovery.pipeline_names())
def test_the_header_of_every_shipped_pipeline_names_its_extras_and_variables(name: str) -> None:
    text = (discovery.pipelines_folder() / f"{name}.yaml").read_text(encoding="utf-8")
    head = "\n".join(itertools.takewhile(lambda line: line.startswith("#"), text.splitlines()))
    pipeline = Pipeline.load(name, environ=dict.fromkeys(variables_of(name), "value"))
    extras = {
        section.registry.extra(choice.name) for section, _, choice in pipeline.components() if section.registry
    } - {""}
    provider = pipeline.answer.provider.partition(":")[0]
    extras |= {PROVIDERS.extra(provider)} - {""} if provider in PROVIDERS.names() else set()
    listed = re.findall(r"^# Install: pip install 'ragkit-kb\[([a-z,-]+)\]'$", head, re.MULTILINE)
    assert [set(line.split(",")) for line in listed] == ([extras] if extras else [])
    for variable in variables_of(name):
        assert re.search(rf"^# Set: .*\b{variable}\b", head, re.MULTILINE), variable


def variables_of(name: str) -> list[str]:
    """The required variables of a shipped pipeline."""
    return re.findall(r"\$\{([A-Z_]+)\}", (discovery.pipelines_folder() / f"{name}.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", discovery.pipeline_names())
def test_every_shipped_pipeline_has_a_summary(name: str) -> None:
    assert discovery.pipeline_summary(name).endswith(".")
    assert "schema" not in discovery.pipeline_summary(name)


def test_shipped_pipelines_are_found_inside_the_package_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "ragkit" / "pipeline"
    monkeypatch.setattr(discovery, "_HERE", package)
    assert discovery.pipelines_folder() == tmp_path / "pipelines"
    (package / "files").mkdir(parents=True)
    assert discovery.pipelines_folder() == package / "files"


def test_an_unknown_pipeline_is_reported_with_the_closest_name() -> None:
    known = ", ".join(discovery.pipeline_names())
    message = f"unknown pipeline 'defualt' (did you mean 'default'?); available: {known}, or the path of"
    with pytest.raises(PipelineError, match=f"^{re.escape(message)}"):
        Pipeline.load("defualt")


def test_a_name_with_a_suffix_or_a_slash_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("default.yaml", "./default"):
        with pytest.raises(PipelineError, match=r"^default(\.yaml)?:1:1: cannot read the file: No such file"):
            Pipeline.load(name)


def test_overrides_profile_and_environment_apply(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    text = (
        "extends: default\nembed: {name: hashing, dimension: '${COLUMNS}'}\nprofiles: {small: {retrieve: {top_k: 3}}}\n"
    )
    path.write_text(text, encoding="utf-8")
    pipeline = Pipeline.load(path, ["split.chunk_size=300"], "small", {"COLUMNS": "64"})
    assert pipeline.embedder == ComponentConfig("hashing", HashingOptions(64))
    assert pipeline.retriever == ComponentConfig("hybrid", HybridOptions(top_k=3))
    assert getattr(pipeline.splitters[0].options, "chunk_size", None) == 300
    assert (pipeline.name, pipeline.path) == ("own", path)


def custom_pipeline() -> Pipeline:
    """A pipeline from code with several components and options."""
    default = Pipeline.default()
    return Pipeline(
        loaders=(
            ComponentConfig("folder", FolderOptions(include=("*.md", "docs/**"), max_file_mb=2.5)),
            ComponentConfig("pypdf", PypdfOptions(max_pages=7), (".pdf",)),
            ComponentConfig("markdown", MarkdownOptions(front_matter=False)),
        ),
        splitters=(
            ComponentConfig("recursive", default.splitters[0].options, (".log", "report-*")),
            *default.splitters,
        ),
        embedder=ComponentConfig("hashing", HashingOptions(64)),
        store=ComponentConfig("memory", MemoryOptions()),
        retriever=ComponentConfig("hybrid", HybridOptions(dense_weight=0.25, fusion="rrf")),
        answer=AnswerOptions("local:gpt-$mini", 2, None),
    )


def test_a_pipeline_from_code_round_trips() -> None:
    for complete in (False, True):
        assert Pipeline.from_yaml(custom_pipeline().to_yaml(complete=complete), environ={}) == custom_pipeline()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("{temperature: 2.5}", "temperature must be between 0 and 2"),
        ("{max_tokens: 0}", "max_tokens must be >= 1"),
        ("{passages_budget: 0}", "passages_budget must be >= 1"),
        ("{context_window: 100}", "context_window must be >= 512"),
    ],
)
def test_settings_of_answers_have_limits(answer: str, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        Pipeline.from_yaml(f"extends: default\nanswer: {answer}\n", environ={})


def test_to_yaml_writes_options_that_differ_from_the_defaults() -> None:
    assert (
        custom_pipeline().to_yaml()
        == """\
load:
  - name: folder
    include: ["*.md", "docs/**"]
    max_file_mb: 2.5
  - name: pypdf
    only: [".pdf"]
    max_pages: 7
  - name: markdown
    front_matter: false
split:
  - name: recursive
    only: [".log", "report-*"]
  - name: recursive
embed:
  name: hashing
  dimension: 64
store:
  name: memory
retrieve:
  name: hybrid
  dense_weight: 0.25
  fusion: rrf
answer:
  provider: "local:gpt-$$mini"
  max_iterations: 2
  max_cost_usd: null
run:
  name: local
"""
    )


def test_to_yaml_writes_variables_instead_of_their_values() -> None:
    text = "extends: default\nembed:\n  name: hashing\n  dimension: ${COLUMNS}\nanswer:\n  provider: '${MODEL:-auto}'\n"
    pipeline = Pipeline.from_yaml(text + "load: {include: ['${ONE}', \"*.md\"]}\n", {"COLUMNS": "64", "ONE": "*.txt"})
    written = pipeline.to_yaml()
    assert "dimension: ${COLUMNS}\n" in written
    assert 'provider: "${MODEL:-auto}"\n' in written
    assert 'include: ["${ONE}", "*.md"]\n' in written
    other = Pipeline.from_yaml(written, {"COLUMNS": "32", "ONE": "*.rst", "MODEL": "echo"})
    assert other.embedder == ComponentConfig("hashing", HashingOptions(32))
    assert other.loaders == (ComponentConfig("folder", FolderOptions(include=("*.rst", "*.md"))),)
    assert other.answer.provider == "echo"


def test_a_value_changed_in_code_is_written() -> None:
    text = "extends: default\nembed:\n  name: hashing\n  dimension: ${COLUMNS}\n"
    pipeline = replace(
        Pipeline.from_yaml(text, {"COLUMNS": "64"}), embedder=ComponentConfig("hashing", HashingOptions(32))
    )
    assert "dimension: 32\n" in pipeline.to_yaml()


@settings(max_examples=150)
@given(text=st.text(max_size=30), number=st.floats(0, 1e9), words=st.lists(st.text(max_size=8), max_size=4))
def test_any_text_and_number_round_trips(text: str, number: float, words: list[str]) -> None:
    pipeline = replace(
        Pipeline.default(),
        loaders=(ComponentConfig("folder", FolderOptions(include=tuple(words), max_file_mb=number or 1.0)),),
        answer=AnswerOptions(f"local:{text}", 1, number),
    )
    assert Pipeline.from_yaml(pipeline.to_yaml(), environ={}) == pipeline


def test_yaml_values_keep_their_types() -> None:
    assert [to_flow_yaml(value) for value in (True, 1, 1.0, "1", "true", "null", "", None)] == [
        "true",
        "1",
        "1.0",
        '"1"',
        '"true"',
        '"null"',
        '""',
        "null",
    ]


def test_from_yaml_extends_shipped_pipelines_but_no_files() -> None:
    assert Pipeline.from_yaml("extends: default\n", environ={}) == Pipeline.default()
    with pytest.raises(PipelineError, match=r"unknown pipeline 'pipelines/default\.yaml'"):
        Pipeline.from_yaml("extends: pipelines/default.yaml\n")


def test_validate_names_the_install_command_of_a_missing_extra() -> None:
    pipeline = replace(
        Pipeline.default(),
        loaders=(*Pipeline.default().loaders, ComponentConfig("unstructured", _unstructured(), (".msg",))),
    )
    with pytest.raises(
        PipelineError, match=r"the loader 'unstructured' needs .*: pip install 'ragkit-kb\[unstructured\]'"
    ):
        pipeline.validate()


def test_the_memory_of_the_parser_has_room_for_what_a_loader_maps() -> None:
    folder = ComponentConfig("folder", FolderOptions(max_memory_mb=500))
    own = replace(Pipeline.default(), loaders=(folder,))
    assert PipelineComponents(own).parse_limits.max_memory_mb == 500
    other = replace(own, loaders=(folder, ComponentConfig("unstructured", _unstructured(), (".msg",))))
    assert PipelineComponents(other).parse_limits.max_memory_mb == 500 + 8192


def test_a_file_with_a_missing_extra_loads_but_validate_reports_its_line(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(
        "extends: default\nload:\n  - {name: folder}\n  - {name: unstructured, only: [.msg]}\n", encoding="utf-8"
    )
    pipeline = Pipeline.load(path)
    with pytest.raises(PipelineError, match=rf"^{path}:4:12: the loader 'unstructured' needs an optional dependency"):
        pipeline.validate()


INVALID: list[tuple[str, Callable[[Pipeline], Pipeline]]] = [
    ("unknown store 'memry'", lambda p: replace(p, store=ComponentConfig("memry", MemoryOptions()))),
    (
        r"options of 'memory' must be MemoryOptions \(got HashingOptions\)",
        lambda p: replace(p, store=ComponentConfig("memory", HashingOptions())),
    ),
    (
        "the last entry must match every remaining file",
        lambda p: replace(p, splitters=(replace(p.splitters[0], only=(".md",)),)),
    ),
    (
        r"include must be a list of strings \(got 'x'",
        lambda p: replace(p, loaders=(ComponentConfig("folder", _folder("x")),)),
    ),
    ("duplicate entry for 'folder'", lambda p: replace(p, loaders=p.loaders * 2)),
]


@pytest.mark.parametrize(("message", "change"), INVALID, ids=[message for message, _ in INVALID])
def test_validate_rejects_what_a_file_cannot_contain(message: str, change: Callable[[Pipeline], Pipeline]) -> None:
    with pytest.raises(PipelineError, match=message):
        change(Pipeline.default()).validate()


def test_no_message_of_validate_contains_a_secret() -> None:
    pipeline = Pipeline.from_yaml(
        "extends: default\nanswer: {provider: 'local:${THE_KEY}'}\n", {"THE_KEY": "sk-secret"}
    )
    with pytest.raises(PipelineError, match="unknown store") as caught:
        replace(pipeline, store=ComponentConfig("memry")).validate()
    assert "sk-secret" not in str(caught.value)


def test_the_nearest_file_up_to_the_repository_root_precedes_that_of_the_user(tmp_path: Path) -> None:
    home, root, inner = tmp_path / "home", tmp_path / "code" / "project", tmp_path / "code" / "project" / "docs" / "api"
    inner.mkdir(parents=True)
    (root / ".git").mkdir()
    environ = {"HOME": str(home)}
    files = [
        home / ".config" / "ragkit" / "ragkit.yaml",
        root / "ragkit.yaml",
        root / "docs" / "ragkit.yaml",
        inner / "ragkit.yaml",
    ]
    (tmp_path / "code" / "ragkit.yaml").write_text("above the repository: never found", encoding="utf-8")
    assert Pipeline.find(inner, environ) is None
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("extends: default\n", encoding="utf-8")
        assert Pipeline.find(inner, environ) == file


def test_outside_a_repository_parent_folders_are_not_searched(tmp_path: Path) -> None:
    inner = tmp_path / "a"
    inner.mkdir()
    (tmp_path / "ragkit.yaml").write_text("extends: default\n", encoding="utf-8")
    assert Pipeline.find(inner, {"HOME": str(tmp_path / "home")}) is None
    assert Pipeline.find(tmp_path, {"HOME": str(tmp_path / "home")}) == tmp_path / "ragkit.yaml"


def test_the_user_folder_comes_from_an_absolute_xdg_variable(tmp_path: Path) -> None:
    for folder in (tmp_path / "xdg" / "ragkit", tmp_path / ".config" / "ragkit", tmp_path / "empty"):
        folder.mkdir(parents=True)
    for name in ("xdg", ".config"):
        (tmp_path / name / "ragkit" / "ragkit.yaml").write_text("extends: default\n", encoding="utf-8")
    found_files = {
        value: Pipeline.find(tmp_path / "empty", {"HOME": str(tmp_path), "XDG_CONFIG_HOME": value})
        for value in (str(tmp_path / "xdg"), "xdg")
    }
    assert found_files == {
        str(tmp_path / "xdg"): tmp_path / "xdg" / "ragkit" / "ragkit.yaml",
        "xdg": tmp_path / ".config" / "ragkit" / "ragkit.yaml",
    }


@pytest.mark.parametrize(
    ("only", "source", "expected"),
    [
        ((), "/a/b.md", True),
        ((".md",), "/a/B.MD", True),
        ((".md",), "/a/md", False),
        ((".tar.gz",), "x.tar.gz", True),
        (("report-*.txt", ".md"), "/a/Report-7.txt", True),
        (("report-*.txt",), "/report-1.txt/other.txt", False),
        ((".html",), "https://x.org/a/page.html?q=1.md#top", True),
        ((".md",), "https://x.org/a/page.html?q=1.md", False),
    ],
)
def test_an_entry_matches_files_by_suffix_or_name_pattern(only: tuple[str, ...], source: str, expected: bool) -> None:
    assert ComponentConfig("recursive", None, only).matches(source) is expected


@dataclass(frozen=True)
class EitherOptions:
    """A local or a remote store."""

    path: str | None = None
    """The folder."""
    host: str = ""
    """The address."""


@pytest.mark.parametrize(
    ("text", "path"), [("{}", ""), ("host: there", None), ("path: here", "here"), ("path: null", None)]
)
def test_a_deferred_option_is_empty_unless_the_file_sets_it_or_its_alternative(text: str, path: str | None) -> None:
    problems: list[ConfigProblem] = []
    tree = parse_yaml(text, create_source("store.yaml", text), problems)
    assert isinstance(tree, MappingNode)
    store_options = OptionsReader(EitherOptions, "the store", problems, frozenset({"path"}), frozenset({"host"})).read(
        tree
    )
    assert (getattr(store_options, "path", "-"), problems) == (path, [])


def components_with_options() -> list[tuple[Section, str]]:
    """Every component with options, with its section."""
    named = [(section, name) for section in SECTIONS if section.registry for name in section.registry.names()]
    return [(section, name) for section, name in named if section.options_class(name) is not None]


@pytest.mark.parametrize(
    ("section", "name"),
    components_with_options(),
    ids=[f"{section.key}.{name}" for section, name in components_with_options()],
)
def test_the_options_of_every_component_round_trip(section: Section, name: str) -> None:
    options = section.options_class(name)
    assert options is not None
    given: dict[str, object] = {"url": "https://x.example/", "text": ("x",)}
    required = {field.name: given.get(field.name, "x") for field in settable_fields(options) if is_required(field)}
    values = options(**required)
    text = "".join(
        f"{option}: {to_flow_yaml(value)}\n" for option, value in options_to_dict(values, complete=True).items()
    )
    problems: list[ConfigProblem] = []
    tree = parse_yaml(text or "{}", create_source("store.yaml", text), problems)
    assert isinstance(tree, MappingNode)
    assert (OptionsReader(options, name, problems).read(tree), problems) == (values, [])


def test_an_empty_connection_string_round_trips() -> None:
    pipeline = Pipeline.from_yaml('{extends: default, store: {name: pgvector, dsn: ""}}')
    assert Pipeline.from_yaml(pipeline.to_yaml()) == pipeline
    assert Pipeline.from_yaml(pipeline.to_yaml(complete=True)) == pipeline


@pytest.mark.parametrize("path", ['""', '"${NAME}"'])
def test_a_folder_source_without_a_path_is_refused(path: str) -> None:
    with pytest.raises(PipelineError, match="path must be the path of a folder or a file"):
        Pipeline.from_yaml(f"extends: default\nsources: {{name: folder, path: {path}}}", {"NAME": ""})


def _unstructured() -> DataclassInstance:
    options = next(section for section in SECTIONS if section.key == "load").options_class("unstructured")
    assert options is not None
    return options()


def _folder(include: object) -> FolderOptions:
    options = FolderOptions()
    object.__setattr__(options, "include", include)  # possible in code without a type checker
    return options
