"""Precedence of `extends`, profiles, variables and `--set`."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragkit.errors import PipelineError
from ragkit.pipeline.components import ComponentConfig
from ragkit.pipeline.read import ReadOptions, read_path
from tests.pipeline.conftest import Write, problems_of, read
from tests.pipeline.sample import (
    SECTIONS,
    FilesOptions,
    FolderOptions,
    MixedOptions,
    RecursiveOptions,
    RemoteOptions,
    RerankOptions,
    ServerOptions,
)


def test_a_file_overrides_single_options_of_its_base(write: Write) -> None:
    reading = read(write("extends: plain\nsplit: {chunk_size: 300}\n"))
    assert reading.components["split"] == (ComponentConfig("recursive", RecursiveOptions(300)),)
    assert reading.components["load"] == (ComponentConfig("folder", FolderOptions()),)


def test_a_chain_of_extends_is_merged_in_order(write: Write) -> None:
    write("extends: careful\nsplit: {unit: characters}\n", "base/middle.yaml")
    reading = read(write("extends: base/middle.yaml\nsplit: {chunk_overlap: 5}\n"))
    assert reading.components["split"] == (ComponentConfig("recursive", RecursiveOptions(100, 5, "characters")),)
    assert reading.components["retrieve"] == (ComponentConfig("mixed", MixedOptions(top_k=20)),)


def test_another_component_replaces_the_section_with_all_its_options(write: Write) -> None:
    write("extends: plain\nstore: {name: server, path: 'http://one', retries: 9}\n", "base.yaml")
    reading = read(write("extends: base.yaml\nstore: {name: files}\n"))
    assert reading.components["store"] == (ComponentConfig("files", FilesOptions("")),)


def test_the_same_component_named_again_keeps_inherited_options(write: Write) -> None:
    write("extends: plain\nstore: {name: server, path: 'http://one', retries: 9}\n", "base.yaml")
    reading = read(write("extends: base.yaml\nstore: {name: server, sync: false}\n"))
    assert reading.components["store"] == (ComponentConfig("server", ServerOptions("http://one", False, 9)),)


def test_a_list_replaces_a_list(write: Write) -> None:
    write("extends: plain\nsplit: [{name: lines, only: [.log]}, {name: recursive}]\n", "base.yaml")
    reading = read(write("extends: base.yaml\nsplit: [{name: lines}]\n"))
    assert reading.components["split"] == (ComponentConfig("lines"),)


def test_extends_does_not_follow_a_link_out_of_the_folder(
    write: Write, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "base.yaml"
    outside.write_text("extends: plain\n", encoding="utf-8")
    path = write("extends: link.yaml\n")
    Path("link.yaml").symlink_to(outside)
    assert problems_of(path) == [
        "ragkit.yaml:1:10: extends must name a file below ./, links resolved (got 'link.yaml')"
    ]


def test_a_chain_of_more_than_ten_files_is_rejected(write: Write) -> None:
    for number in range(12):
        write(f"extends: f{number + 1}.yaml\n", f"f{number}.yaml")
    assert problems_of(Path("f0.yaml")) == ["f9.yaml:1:10: at most 10 files can extend one another"]


PROFILES = """\
extends: plain
retrieve: {top_k: 5}
profiles:
  production:
    retrieve: {top_k: 20}
    store: {name: server, path: 'http://two'}
"""


def test_a_profile_overrides_the_file(write: Write) -> None:
    reading = read_path(write(PROFILES), ReadOptions({}, profile="production", sections=SECTIONS))
    assert reading.components["retrieve"] == (ComponentConfig("mixed", MixedOptions(20)),)
    assert reading.components["store"] == (ComponentConfig("server", ServerOptions("http://two")),)


def test_no_profile_applies_by_default(write: Write) -> None:
    assert read(write(PROFILES)).components["retrieve"] == (ComponentConfig("mixed", MixedOptions(5)),)


def test_the_profile_argument_overrides_the_environment(write: Write) -> None:
    path = write(PROFILES + "  test: {retrieve: {top_k: 2}}\n")
    from_environment = ReadOptions({"RAGKIT_PROFILE": "production"}, sections=SECTIONS)
    overridden = ReadOptions({"RAGKIT_PROFILE": "production"}, profile="test", sections=SECTIONS)
    assert read_path(path, from_environment).components["retrieve"] == (ComponentConfig("mixed", MixedOptions(20)),)
    assert read_path(path, overridden).components["retrieve"] == (ComponentConfig("mixed", MixedOptions(2)),)


def test_a_file_without_profiles_ignores_the_profile_of_the_environment(write: Write) -> None:
    assert read(write("extends: plain\n"), environ={"RAGKIT_PROFILE": "production"}).components["embed"] == (
        ComponentConfig("small"),
    )


def test_profiles_of_the_same_name_are_merged_along_the_chain(write: Write) -> None:
    write(PROFILES, "base.yaml")
    path = write("extends: base.yaml\nprofiles: {production: {retrieve: {weight: 0.9}}}\n")
    reading = read_path(path, ReadOptions({}, profile="production", sections=SECTIONS))
    assert reading.components["retrieve"] == (ComponentConfig("mixed", MixedOptions(20, 0.9)),)
    assert reading.components["store"] == (ComponentConfig("server", ServerOptions("http://two")),)


def test_a_setting_overrides_file_and_profile(write: Write) -> None:
    request = ReadOptions({}, ("retrieve.top_k=3",), "production", sections=SECTIONS)
    reading = read_path(write(PROFILES), request)
    assert reading.components["retrieve"] == (ComponentConfig("mixed", MixedOptions(3)),)


def test_a_setting_that_names_another_component_drops_the_old_options_in_any_order(write: Write) -> None:
    path = write(PROFILES)
    for settings in (["store.path=/x", "store.name=server"], ["store.name=server", "store.path=/x"]):
        assert read(path, settings).components["store"] == (ComponentConfig("server", ServerOptions("/x")),)
    assert read(path, ["split.name=lines"]).components["split"] == (ComponentConfig("lines"),)


def test_the_last_of_two_settings_for_an_option_applies(write: Write) -> None:
    assert read(write(PROFILES), ["retrieve.top_k=3", "retrieve.top_k=4"]).components["retrieve"][
        0
    ].options == MixedOptions(4)


def test_a_setting_is_read_as_yaml(write: Write) -> None:
    settings = [
        'load.include=["*.md", docs/**]',
        "load.hidden=true",
        "retrieve.rerank={depth: 7}",
        "split={name: lines}",
    ]
    reading = read(write(PROFILES), settings)
    assert reading.components["load"][0].options == FolderOptions(("*.md", "docs/**"), 50.0, True)
    assert reading.components["retrieve"][0].options == MixedOptions(5, 0.5, RerankOptions(7))
    assert reading.components["split"] == (ComponentConfig("lines"),)


def test_a_setting_selects_a_list_entry_by_number(write: Write) -> None:
    path = write("extends: plain\nload: [{name: folder}, {name: pdf, only: [.pdf]}]\n")
    reading = read(path, ["load.1.max_pages=7", "load.1.only.0=.ps"])
    assert reading.components["load"][1].only == (".ps",)
    assert reading.origins["load.1.max_pages"].kind == "--set"


def test_a_single_component_is_selected_with_and_without_its_number(write: Write) -> None:
    single, listed = write("extends: plain\n"), write("extends: plain\nsplit: [{name: recursive}]\n", "listed.yaml")
    for path in (single, listed):
        for setting in ("split.chunk_size=300", "split.0.chunk_size=300"):
            assert read(path, [setting]).components["split"] == (ComponentConfig("recursive", RecursiveOptions(300)),)


ENVIRON = {"SIZE": "300", "EMPTY": "", "WORD": "007", "NULL": "null", "ADDRESS": "http://x#y: [z"}


@pytest.mark.parametrize("written", ["${SIZE}", "'${SIZE}'", "${NO_SIZE:-300}", "${EMPTY:-300}", "3${NONE:-00}"])
def test_a_variable_is_converted_for_a_numeric_option(write: Write, written: str) -> None:
    path = write(f"extends: plain\nsplit:\n  chunk_size: {written}\n")
    assert read(path, environ=ENVIRON).components["split"][0].options == RecursiveOptions(300)


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("${WORD}", "007"),
        ('"${ADDRESS}/v1"', "http://x#y: [z/v1"),
        ("a$$b", "a$b"),
        ("$${SIZE}", "${SIZE}"),
        ("$SIZE", "$SIZE"),
        ('"${NO_SIZE:-}"', ""),
        ("'${NO_SIZE:-a:-b}'", "a:-b"),
        ("${NO_SIZE:-$$}", "$$"),
    ],
)
def test_a_variable_stays_text_for_a_text_option(write: Write, written: str, text: str) -> None:
    path = write(f"extends: plain\nembed:\n  name: remote\n  model: {written}\n")
    assert read(path, environ=ENVIRON).components["embed"][0].options == RemoteOptions(text)


def test_a_variable_can_be_null_if_null_is_allowed(write: Write) -> None:
    path = write("extends: plain\nembed: {name: remote, model: m}\nanswer:\n  max_cost_usd: ${NULL}\n")
    assert read(path, ["embed.dimensions=${NULL}"], ENVIRON).components["embed"][0].options == RemoteOptions("m")
    assert read(path, environ=ENVIRON).answer.max_cost_usd is None


def test_the_value_of_a_secret_variable_is_never_shown(write: Write) -> None:
    load = "[{name: folder, include: '${K_TOKEN}'}, {name: '${K_TOKEN}'}, {name: pdf, only: ['${K_TOKEN}']}]"
    split = "{unit: '${K_TOKEN}', chunk_size: '${K_TOKEN}'}"
    path = write(f"extends: plain\nload: {load}\nsplit: {split}\n")
    with pytest.raises(PipelineError, match="the value of K_TOKEN") as caught:
        read(path, environ={"K_TOKEN": "tokens7"})
    assert len(caught.value.problems) == 5
    assert "tokens7" not in str(caught.value)


def test_a_variable_in_a_replaced_value_need_not_be_set(write: Write) -> None:
    path = write("extends: plain\nembed:\n  name: remote\n  model: ${NOT_SET}\n")
    assert read(path, ["embed.model=m"]).components["embed"][0].options == RemoteOptions("m")


def test_a_variable_can_set_a_name_but_cannot_inject_options(write: Write) -> None:
    path = write("extends: plain\nsplit:\n  name: ${SPLITTER}\n")
    assert read(path, environ={"SPLITTER": "lines"}).components["split"] == (ComponentConfig("lines"),)
    injected = {"SPLITTER": "recursive\n  chunk_size: 1"}
    assert problems_of(path, environ=injected) == [
        "ragkit.yaml:3:9: unknown splitter 'recursive\\n  chunk_size: 1' from SPLITTER; available: lines, recursive; "
        'for one of yours, register("splitter", ...) or install its package'
    ]


def test_every_option_has_its_origin(write: Write) -> None:
    path = write(PROFILES + "split:\n  chunk_size: ${SIZE}\n")
    request = ReadOptions(ENVIRON, ("split.chunk_overlap=7",), "production", sections=SECTIONS)
    origins = read_path(path, request).origins
    shown = {key: f"{origins[key].kind} {origins[key]}" for key in ("load.name", "retrieve.top_k", "retrieve.name")}
    assert shown == {
        "load.name": f"file {origins['load.name'].location}",
        "retrieve.top_k": "profile profile production (ragkit.yaml:5:23)",
        "retrieve.name": f"file {origins['retrieve.name'].location}",
    }
    assert str(origins["split.chunk_overlap"]) == "--set:1:21"
    assert str(origins["split.chunk_size"]) == "environment SIZE (ragkit.yaml:8:15)"
    assert str(origins["load.name"]).endswith("sample_pipelines/plain.yaml:3:14")
    assert "split.unit" not in origins


def test_thorough_reading_checks_every_profile(write: Write) -> None:
    path = write("extends: plain\nprofiles: {a: {split: {chunk_size: 0}}, b: {retrieve: {top_k: 0}}}\n")
    with pytest.raises(PipelineError, match=r"chunk_size must be >= 1 \(got 0\)") as caught:
        read_path(path, ReadOptions({}, thorough=True, sections=SECTIONS))
    assert [problem.split()[1] for problem in caught.value.problems] == ["chunk_size", "top_k"]


@pytest.mark.parametrize(
    ("create", "message"),
    [
        (lambda path: path.mkdir(), "a directory: give the path of a pipeline file"),
        (lambda path: None, "cannot read the file: No such file or directory"),
        (lambda path: path.symlink_to("/dev/zero"), "not a regular file: give the path of a pipeline file"),
        (lambda path: path.write_bytes(b"#" * 100_000_000), "the file must have at most 1,000,000 bytes"),
    ],
)
def test_a_path_that_is_no_file_of_reasonable_size_is_rejected_unread(
    write: Write, create: object, message: str
) -> None:
    path = Path("ragkit.yaml")
    assert callable(create)
    create(path)
    assert problems_of(path) == [f"ragkit.yaml:1:1: {message}"]
