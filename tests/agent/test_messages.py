"""Messages: their fields and their JSON."""

import json
from pathlib import Path

import pytest

from ragkit.agent.messages import Image, Message, Role, ToolCall, canonical_json, is_json_value


def test_a_message_without_text_has_empty_text() -> None:
    assert Message(Role.ASSISTANT, None).content == ""  # type: ignore[arg-type]  # services do answer None


def test_a_role_may_be_passed_by_its_name() -> None:
    assert Message("user", "hi") == Message.user("hi")  # type: ignore[arg-type]
    with pytest.raises(
        ValueError, match=r"role must be a Role or one of 'assistant', 'system', 'tool', 'user' \(got str: 'robot'"
    ):
        Message("robot", "hi")  # type: ignore[arg-type]


def test_every_field_survives_json() -> None:
    message = Message(
        Role.ASSISTANT,
        "words",
        (ToolCall("t", {"a": [1, {"b": None}]}, "c1"), ToolCall("u", {}, "c2", malformed="{oops")),
        agent_name="billing",
        images=(Image("QUJD", "image/jpeg"),),
        reasoning="because",
        pinned=True,
        provider_state={"signature": "xyz"},
    )
    assert Message.from_dict(json.loads(json.dumps(message.to_dict()))) == message
    result = Message(Role.TOOL, "42", tool_call_id="c1", name="t", is_error=True)
    assert Message.from_dict(json.loads(json.dumps(result.to_dict()))) == result


def test_only_data_that_is_json_is_saved() -> None:
    plain = Message(Role.TOOL, "x", data={"rows": [1, 2]})
    assert Message.from_dict(plain.to_dict()).data == {"rows": [1, 2]}
    assert "data" not in Message(Role.TOOL, "x", data=object()).to_dict()


def test_empty_fields_of_a_message_are_omitted() -> None:
    assert Message.user("hi").to_dict() == {"role": "user", "content": "hi"}


def test_a_call_has_both_pairs_of_names() -> None:
    call = ToolCall("search", {"q": "x"})
    assert (call.tool_name, call.parameters) == ("search", {"q": "x"})


def test_an_image_is_read_as_base64_with_its_type(tmp_path: Path) -> None:
    (tmp_path / "dot.jpg").write_bytes(b"ABC")
    assert Image.from_file(tmp_path / "dot.jpg") == Image("QUJD", "image/jpeg")


def test_messages_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="cannot assign to field 'content'"):
        Message.user("hi").content = "ho"  # type: ignore[misc]


def test_equal_values_give_equal_json() -> None:
    assert (
        canonical_json({"b": 1, "a": [True, None]})
        == canonical_json({"a": [True, None], "b": 1})
        == '{"a":[true,null],"b":1}'
    )


def test_a_value_that_is_not_json_is_detected() -> None:
    assert is_json_value({"a": [1, 2.5, "x", None, True, ("t",)]})
    assert not is_json_value({"a": object()})
    assert not is_json_value({1: "a"})
