"""`NO_REPLY` is heard by nobody; everything else is, at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cases import every_case
from vademecum.context.host import ReplyListener
from vademecum.text import SILENCE as TOKEN
from vademecum.text import is_silent


def heard(chunks: list[str]) -> str:
    listener, found = ReplyListener(), ""
    for chunk in chunks:
        listener, more = listener.feed(chunk)
        found += more
    return found + listener.finish()


@every_case(
    "text",
    [
        "NO_REPLY",
        " no_reply\n",
        "**NO_REPLY**",
        "`NO_REPLY`",
        '"NO_REPLY".',
        "NO_REPLY: nothing",
        "NO_REPLY\n\nDone.",
    ],
)
def test_silence(text: str) -> None:
    assert is_silent(text)
    assert heard([text]) == heard(list(text)) == ""


@every_case(
    "text",
    ["", " ", "N", "NO_REP", "No reply came.", "NO_REPLYING is no word", "NO_REPLY_ALL", "NO_REPLY-TO",
     "Nothing", "I say NO_REPLY", " " * 50 + "NO_REPLY", "noreply@example.org", "**Note**"],
)  # fmt: skip
def test_an_answer_is_heard(text: str) -> None:
    assert not is_silent(text)
    assert heard([text]) == heard(list(text)) == text


def test_an_answer_is_released_as_soon_as_it_cannot_be_silence() -> None:
    listener, first = ReplyListener().feed("NO")
    assert first == ""
    listener, second = listener.feed(" w")
    assert second == "NO w"
    assert listener.feed("ay")[1] == "ay"
    assert ReplyListener().feed("Hello")[1] == "Hello"


PARTS = ["NO", "_", "REPLY", "N", "O", "no_re", "ply", " ", "\n", "**", "`", ".", "ing", "", "x"]
PIECES = st.lists(st.sampled_from(PARTS) | st.text(max_size=3), max_size=10)


@given(PIECES)
def test_streaming_shows_what_the_whole_would_show(chunks: list[str]) -> None:
    text = "".join(chunks)
    assert heard(chunks) == heard([text]) == ("" if is_silent(text) else text)


@given(st.integers(0, 5), PIECES)
def test_nothing_is_held_that_could_be_shown(spaces: int, chunks: list[str]) -> None:
    """What is held could still become silence: with the right ending, it does."""
    listener = ReplyListener(buffered="")
    for chunk in [" " * spaces, *chunks]:
        listener, _ = listener.feed(chunk)
        assert len(listener.buffered) <= 40
        if listener.buffered:
            assert any(is_silent(listener.buffered + TOKEN[at:]) for at in range(len(TOKEN) + 1))
