"""Tell from a provider's words that a prompt did not fit into the model's context window.

There is no common code for it: most say it with status 400, older llama.cpp with 500, Groq with 413, and only
the words tell it from any other refusal. Knows words alone.
"""

from __future__ import annotations

import re

_WORDS = re.compile(
    r"""
      context_length_exceeded | exceed_context_size_error | model_context_window_exceeded | request_too_large
    | prompt\ is\ too\ long | prompt\ too\ long | prompt\ \(.*\)\ is\ too\ long
    | input\ is\ too\ long | input\ too\ long | input\ length\ too\ long
    | too\ many\ (?:input\ |total\ |prompt\ )?tokens\b (?!\ per\b) (?!.*\b(?:rate|quota|minute|day)\b)
    | context\ (?:length|window|size)\ (?:is\ |was\ |has\ been\ )?(?:exceeded|full|too\ small)
    | (?:exceed(?:s|ed)?|larger\ than|longer\ than|greater\ than|over|beyond|fits?\ (?:in|into))
      [^.\n]{0,60} \bcontext[\ -](?:length|window|size|limit)
    | maximum\ (?:context|prompt|input|sequence)\ length
    | context\ length\ (?:is|of)\ (?:only\ )?[\d,]+
    | (?:max_tokens|max\ tokens)[^.\n]{0,20}\ exceed\ context\ limit
    | input\ token(?:s|\ count)\b[^.\n]{0,60}\ exceed
    | input\ tokens\ exceeded
    | exceed(?:s|ed)?[^.\n]{0,40}\ maximum\ (?:number\ of\ )?(?:allowed\ )?(?:input\ )?tokens
    | exceed(?:s|ed)?\ (?:the\ )?(?:model['’]?s?\ )?(?:maximum\ )?token\ limit
    | (?:reduce|decrease|shorten)\ the\ (?:length|size)\ of\ (?:the|your)\ (?:messages?|prompt|input)
    | reduce\ your\ (?:prompt|message\ size)
    | too\ large\ for\ model\ with\ [\d,]+\ maximum\ context
    | token\ count\ of\ [\d,]+\ exceeds
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
# A limit per minute also speaks of too many tokens; a shorter prompt is not what it asks for.
_RATE = re.compile(
    r"rate.?limit|tokens per (?:minute|day|second)|\b[TR]P[MD]\b|per[ -]minute|throttl", re.IGNORECASE
)
_LONGEST = 20_000


def is_overflow(said: object) -> bool:
    """Tell whether an error, its body or its words say that the prompt is larger than the window."""
    from vademecum.errors import ModelFailed, ModelOverflow

    if isinstance(said, ModelOverflow):
        return True
    if isinstance(said, ModelFailed):
        return False  # it has been read already
    words = " ".join(_words(said))[:_LONGEST]
    return bool(_WORDS.search(words)) and not _RATE.search(words)


def _words(said: object, depth: int = 0) -> list[str]:
    """All words of an error and what it carries, or of a body as JSON gives it."""
    if depth > 6 or said is None:
        return []
    if isinstance(said, bytes):
        return [said[:_LONGEST].decode("utf-8", "replace")]
    if isinstance(said, dict):
        return [word for value in list(said.values())[:50] for word in _words(value, depth + 1)]
    if isinstance(said, list | tuple):
        return [word for value in list(said)[:50] for word in _words(value, depth + 1)]
    if isinstance(said, BaseException):
        return [str(said), *_words(getattr(said, "body", None), depth + 1)]
    return [said[:_LONGEST]] if isinstance(said, str) else []
