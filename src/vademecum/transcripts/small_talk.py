"""Which words of a user's ask for something, and which only greet, agree or hurry along.

Two questions, because two mistakes are possible: a session may be named after one telling word, but a task is
replaced only by what surely is another.
"""

from __future__ import annotations

import re

from vademecum.text.words import SPOKEN
from vademecum.tokens import weigh

_ENOUGH_BYTES = 50
_ENOUGH_WORDS = 4
_ENOUGH_TELLING = 18
_LOOKED_AT = 2000  # characters of a text, enough to judge it by
_SMALL = frozenset(
    """a about absolutely ack afternoon again agreed ah ahead all alright also am amazing and another
    any approve approved are as at awesome b back be begin best bitte bonjour both but bye c can carry
    cheers ciao claro clear continue cool correct could course danke definitely do does doing don't
    done either else evening everyone everything exactly excellent fantastic far fine first for from
    gerne go going good got gracias great gut haha hallo have hello help here hey hi hm hmm hola how i
    i'm if in indeed instead is it it's ja just k keep kk last later let let's lets lgtm like lol
    looking looks los love makes many maybe me merci mind moin more morning move much my n nah nein
    next nice no non none nope not nothing now of off oh ok okay okey oki on one onward option or
    other oui our out over perfect please pls possible proceed proceeding ready really resume right
    salut same second see sense servus shall ship should si so some sounds start still stop stuff
    super sure sweet sì sí ta take thank thanks that that's thats the them then there these they thing
    things think third this those thumbs thx to too try two ty up us use very vielen wait want was way
    we weiter well what when which will with wonderful work works would wow wunderbar y ya yay yeah
    yep yes yet you you're your yup
    好 好的 是 是的 对 继续 可以 行 嗯 谢谢 你好 您好
    はい いいえ うん お願いします ありがとう こんにちは 続けて
    네 예 계속 감사합니다 안녕하세요 да нет хорошо спасибо""".split()
)
_ALONE = frozenset(("day", "ping", "test"))  # small when nothing else is said, telling beside other words
_COMMAND = re.compile(r"/[\w:-]+(?:\s|$)")


def is_command(text: str) -> bool:
    """Whether a text is a command to the chat, such as `/new`; a path is none."""
    return bool(_COMMAND.match(text.strip()))


def telling(text: str) -> list[str]:
    """The words of a text that are no small talk."""
    words = (word.lower().replace("’", "'") for word in SPOKEN.findall(text[:_LOOKED_AT]))
    return [word for word in words if word not in _SMALL and not word.isdecimal()]


def says_something(text: str) -> bool:
    """Whether a text asks for something: not a greeting, a short confirmation or a command of the chat."""
    words = telling(text)
    return not is_command(text) and sum(map(weigh, words)) > 2 and not set(words) <= _ALONE


def is_substantive(text: str) -> bool:
    """Whether a text can be a task: four words that are no small talk, or 50 bytes of which some are none.

    Bytes, because 17 Chinese signs are a sentence; only some, because "yes, that looks good to me, please
    commit it and go on" is long and still a confirmation.
    """
    words = telling(text)
    bytes_ = sum(map(weigh, words))
    return len(words) >= _ENOUGH_WORDS or (weigh(text) >= _ENOUGH_BYTES and bytes_ >= _ENOUGH_TELLING)
