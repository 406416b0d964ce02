"""Token estimates."""

from ragkit.usage.tokens import Tokens, estimate_tokens


def test_four_ascii_letters_are_about_one_token() -> None:
    assert [estimate_tokens("a" * n) for n in (0, 1, 4, 5, 400)] == [0, 1, 1, 2, 100]


def test_non_ascii_letters_count_by_their_bytes() -> None:
    assert estimate_tokens("日本語") == 3  # nine bytes


def test_a_text_with_a_lone_surrogate_is_counted() -> None:
    assert estimate_tokens("\ud800") == 1


def test_the_total_is_the_sum_of_input_and_output_tokens() -> None:
    assert Tokens(10, 5, cached_tokens=8).total == 15
