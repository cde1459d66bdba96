"""How full a window is: its messages, its block and its schemas in tokens of the model it goes to."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vademecum.context.budget import Window, reply_reserve
from vademecum.context.prepared import Sections
from vademecum.context.replay import block_message, compose, opening
from vademecum.context.sizes import measure_all
from vademecum.tokens import PRIMING, Size, count

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vademecum.transcripts.messages import Message


class Scale(NamedTuple):
    """What is needed to weigh a window: the model's size, its ratio, and the schemas that go with it."""

    context: int
    ratio: float
    schemas: Size = Size()
    reply: int | None = None

    def count(self, messages: Iterable[Message]) -> int:
        """Messages in tokens."""
        return count(measure_all(messages), self.ratio)

    def total(self, shown: Sequence[Message], block: str) -> int:
        """A whole request in tokens."""
        return count(measure_all(compose(shown, block)) + self.schemas, self.ratio) + PRIMING

    def window(self, shown: Sequence[Message]) -> Window:
        """The window, and what in it is not ours to trim."""
        return Window(
            self.context,
            reply_reserve(self.context, self.reply),
            count(self.schemas, self.ratio),
            self.count(shown[: opening(shown)]),
        )

    def sections(self, shown: Sequence[Message], block: str) -> Sections:
        """What of a request takes how many tokens."""
        window = self.window(shown)
        summed = self.count([block_message(block)]) if block else 0
        total = self.total(shown, block)
        rest = max(total - window.fixed - summed, 0)
        return Sections(window.schemas, window.system, summed, rest, total, window.limit, self.context)
