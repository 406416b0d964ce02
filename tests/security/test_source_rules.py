"""Forbidden in the source: run data as code, read pickles, skip certificate checks, resolve entities."""

from __future__ import annotations

import ast
from collections.abc import Mapping

import pytest

from tests.security.source import calls, imports, trees

FORBIDDEN_CALLS = {
    "eval": "runs text as code",
    "exec": "runs text as code",
    "compile": "makes code of text",
    "__import__": "imports by name",
    "os.system": "runs a shell",
    "os.popen": "runs a shell",
    "tempfile.mktemp": "names a file that anyone may make first",
    "torch.load": "reads a pickle",
    "uuid.uuid1": "can be guessed",
    "ssl._create_unverified_context": "trusts everyone",
}
FORBIDDEN_MODULES = {
    *("shelve", "marshal", "dill", "cloudpickle", "joblib", "jinja2", "xml.etree", "xml.sax", "xml.dom", "imp"),
    *("numexpr", "asteval", "pandas", "commands", "telnetlib", "xmlrpc"),
}
PICKLES: Mapping[str, str] = {
    "load/process/ipc.py": "only requests of the parent to its parser; results of the parser are validated JSON",
    "knowledge_base/sources/prepared_files.py": "reads back its own anonymous temporary file",
    "pipeline/run/worker_process.py": "both ends of the pipe are this program's own processes",
    "pipeline/run/ray.py": "Ray moves its tasks so; its cluster is the user's own",
}
"""The only files that may import pickle. None reads files or sockets that others can write."""


def test_no_text_is_run_as_code_or_in_a_shell() -> None:
    assert [(path, name) for path, name, _ in calls() if name in FORBIDDEN_CALLS] == []
    results = [
        path
        for path, _, call in calls()
        for word in call.keywords
        if word.arg == "shell" and not is_false_argument(word)
    ]
    assert results == []


def test_no_module_that_runs_or_unpacks_foreign_code_is_imported() -> None:
    results = [
        (path, name)
        for path, name in imports()
        if path != "evaluate/junit.py"  # writes XML only
        and any(name == module or name.startswith(module + ".") for module in FORBIDDEN_MODULES)
    ]
    assert results == []


def test_pickle_is_used_only_between_own_processes() -> None:
    assert {path for path, name in imports() if name.split(".")[0] in ("pickle", "_pickle")} == set(PICKLES)


def test_arrays_are_read_without_pickle() -> None:
    loads = [(path, call) for path, name, call in calls() if name in ("np.load", "numpy.load")]
    assert len(loads) >= 4
    allowed = [path for path, call in loads for word in call.keywords if word.arg == "allow_pickle"]
    assert allowed == []


def test_yaml_is_read_by_the_safe_loader() -> None:
    created = [call for _, name, call in calls() if name == "YAML"]
    assert len(created) >= 5
    assert {ast.unparse(word.value) for call in created for word in call.keywords if word.arg == "typ"} == {"'safe'"}
    assert all(any(word.arg == "typ" for word in call.keywords) for call in created)
    assert [name for _, name in imports() if name.split(".")[0] == "yaml"] == []


def test_no_model_can_load_its_own_code() -> None:
    result = [word for _, _, call in calls() for word in call.keywords if word.arg == "trust_remote_code"]
    assert [word for word in result if not is_false_argument(word)] == []


def test_archives_are_never_unpacked_to_disk() -> None:
    names = {name.rpartition(".")[2] for _, name, _ in calls()}
    assert names.isdisjoint({"extractall", "extract", "unpack_archive"})


def test_xml_is_parsed_without_entities_and_without_the_network() -> None:
    parsers = [(path, call) for path, name, call in calls() if name in ("etree.XMLParser", "etree.HTMLParser")]
    assert {path for path, _ in parsers} == {
        "load/html/html.py",
        "load/html/tree.py",
        "load/shared/ooxml.py",
        "load/sources/web.py",
    }
    for _, call in parsers:
        result = {word.arg: ast.unparse(word.value) for word in call.keywords}
        assert result["no_network"] == "True"
        assert result.get("resolve_entities", "False") == "False"
        assert result.get("huge_tree", "False") == "False"
        assert result.get("load_dtd", "False") == "False"
    plain = [path for path, name, call in calls() if name == "etree.fromstring" and len(call.args) < 2]
    assert plain == []


def test_certificates_are_always_checked() -> None:
    result = [word for _, _, call in calls() for word in call.keywords if word.arg in ("verify", "check_hostname")]
    assert [word for word in result if is_false_argument(word)] == []


def test_ids_are_long_and_cryptographically_random() -> None:
    cut = [
        path
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript) and "uuid" in ast.unparse(node.value)
    ]
    assert cut == []
    assert [path for path, name, _ in calls() if name.startswith("uuid.uuid") and name[9] in "134"] == []


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "169.254.169.254"])
def test_wildcard_addresses_occur_only_in_checks(address: str) -> None:
    results = {
        path
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value == address
    }
    assert results <= {"load/sources/options.py", "server/guard.py", "server/options.py", "server/settings.py"}


def test_no_file_is_written_to_a_shared_predictable_path() -> None:
    results = [
        (path, node.value)
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.startswith(("/tmp", "/var/tmp"))
    ]
    assert results == []


def is_false_argument(word: ast.keyword) -> bool:
    return isinstance(word.value, ast.Constant) and word.value.value is False
