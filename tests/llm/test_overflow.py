"""A prompt that was too long, in the words of those who say so, and in no other."""
# ruff: noqa: E501  (a sentence of a provider is quoted as it comes)

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from cases import every_case
from vademecum.errors import ModelBusy, ModelFailed, ModelOverflow
from vademecum.llm.net import is_overflow, overflow_limit

OVERFLOWS = {
    "openai": "This model's maximum context length is 128000 tokens. However, your messages resulted in 204308"
    " tokens. Please reduce the length of the messages.",
    "openai code": "context_length_exceeded",
    "openai responses": "Your input exceeds the context window of this model. Please adjust your input and try"
    " again.",
    "openai limit": "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000"
    " tokens. Please reduce the length of the messages.",
    "azure": "This model's maximum context length is 8192 tokens, however you requested 8977 tokens (8977 in your"
    " prompt; 0 for the completion). Please reduce your prompt; or completion length.",
    "anthropic": "prompt is too long: 209353 tokens > 199999 maximum",
    "anthropic both": "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input"
    " length or `max_tokens` and try again",
    "anthropic size": "request_too_large: Request exceeds the maximum allowed number of bytes.",
    "anthropic stop": "model_context_window_exceeded",
    "google": "The input token count (1219354) exceeds the maximum number of tokens allowed (1048576).",
    "google older": "The input token count exceeds the maximum number of tokens allowed 32768.",
    "vertex": "Unable to submit request because the input token count is 1203845 but model only supports up to"
    " 1048576. The input token count of 1203845 exceeds the limit.",
    "llama.cpp": "the request exceeds the available context size. try increasing the context size or enable"
    " context shift",
    "llama.cpp newer": "request (14429 tokens) exceeds the available context size (8192 tokens), try increasing it",
    "llama.cpp type": "exceed_context_size_error",
    "llama-cpp-python": "Requested tokens (2285) exceed context window of 2048",
    "ollama": "the input length exceeds the context length",
    "ollama newer": "prompt too long; exceeded max context length by 3712 tokens",
    "openrouter": "This endpoint's maximum context length is 131072 tokens. However, you requested about 351430"
    ' tokens (351430 of text input). Please reduce the length of either one, or use the "middle-out" transform'
    " to compress your prompt automatically.",
    "vllm": "This model's maximum context length is 4096 tokens. However, you requested 4104 tokens (3104 in the"
    " messages, 1000 in the completion). Please reduce the length of the messages or completion.",
    "vllm prompt": "The decoder prompt (length 25938) is longer than the maximum model length of 4096. The prompt"
    " (total length 25938) is too long to fit into the model (context length 4096).",
    "vllm max_tokens": "'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum context"
    " length is 4096 tokens and your request has 2104 input tokens (2000 > 4096 - 2104).",
    "vllm newer": "You passed 202753 input tokens and requested 0 output tokens. However, the model's context"
    " length is only 202752 tokens, resulting in a maximum input length of 202752 tokens.",
    "sglang": "The input (85050 tokens) is longer than the model's context length (32768 tokens).",
    "bedrock": "ValidationException: Input is too long for requested model.",
    "bedrock nova": "Input Tokens Exceeded: Number of input tokens exceeds maximum length.",
    "lm studio": "Trying to keep the first 10136 tokens when context the overflows. However, the model is loaded"
    " with context length of only 7866 tokens, which is not enough. Try to load the model with a larger context"
    " length, or provide a shorter input.",
    "lm studio newer": "The number of tokens to keep from the initial prompt is greater than the context length.",
    "groq": "Please reduce the length of the messages or completion.",
    "mistral": "Prompt contains 40035 tokens and 0 draft tokens, too large for model with 32768 maximum context"
    " length",
    "xai": "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    "deepseek": "This model's maximum context length is 65536 tokens. However, you requested 68881 tokens.",
    "cohere": "too many tokens: total number of tokens in the prompt cannot exceed 4081",
    "moonshot": "Invalid request: Your request exceeded model token limit: 131072",
    "copilot": "prompt token count of 145000 exceeds the limit of 128000",
    "together": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. The prompt is longer"
    " than the maximum context length.",
    "dashscope": "Range of input length should be [1, 30720]: input is too long",
    "context full": "context window full",
}

OTHERS = {
    "nothing": "",
    "key": "Incorrect API key provided: sk-ab***yz. You can find your API key at the dashboard.",
    "rate": "Rate limit reached for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Used 29000,"
    " Requested 5000. Please try again in 8s.",
    "rate size": "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 45072. The input or"
    " output tokens must be reduced in order to run successfully.",
    "anthropic rate": "This request would exceed your organization's rate limit of 50,000 input tokens per minute."
    " Please reduce the prompt length or the maximum tokens requested.",
    "bedrock rate": "ThrottlingException: Too many tokens, please wait before trying again.",
    "bedrock day": "Too many tokens per day, please wait before trying again.",
    "google quota": "Resource has been exhausted (e.g. check quota).",
    "fault": "The server had an error while processing your request. Sorry about that!",
    "overloaded": "Overloaded",
    "unknown model": "The model `gpt-9` does not exist or you do not have access to it.",
    "bad value": "Invalid value for 'max_tokens': must be at least 1.",
    "image": "image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes",
    "schema": "Invalid schema for function 'x': string too long. Expected a string with maximum length 64.",
    "talk": "The context of this conversation is interesting.",
}


@every_case("who", OVERFLOWS)
def test_an_overflow_is_known_in_every_providers_words(who: str) -> None:
    words = OVERFLOWS[who]
    assert is_overflow(words)
    assert is_overflow(words.upper())
    assert is_overflow({"error": {"message": words, "code": 400, "param": None}})
    assert is_overflow([{"error": {"message": words}}])
    assert is_overflow(json.dumps({"error": {"message": words}}).encode())
    assert is_overflow(RuntimeError(f"status 400: {words}"))


# What each of them says of the window itself; the others name no size, or only by how much it was too much.
SIZES = {
    "openai": 128000,
    "openai limit": 272000,
    "azure": 8192,
    "anthropic": 199999,
    "anthropic both": 200000,
    "google": 1048576,
    "google older": 32768,
    "vertex": 1048576,
    "llama.cpp newer": 8192,
    "llama-cpp-python": 2048,
    "openrouter": 131072,
    "vllm": 4096,
    "vllm prompt": 4096,
    "vllm max_tokens": 4096,
    "vllm newer": 202752,
    "sglang": 32768,
    "lm studio": 7866,
    "mistral": 32768,
    "xai": 131072,
    "deepseek": 65536,
    "cohere": 4081,
    "moonshot": 131072,
    "copilot": 128000,
    "together": 8193,
    "dashscope": 30720,
}


@every_case("who", OVERFLOWS)
def test_the_size_of_the_window_is_read_where_it_is_said(who: str) -> None:
    words, size = OVERFLOWS[who], SIZES.get(who)
    assert overflow_limit(words) == size
    assert overflow_limit({"error": {"message": words, "code": 400}}) == size
    assert (
        overflow_limit(ModelOverflow(f"compatible:x at 127.0.0.1:8080 says the prompt is too long: {words}"))
        == size
    )


def test_an_error_that_carries_a_body_is_read_with_it() -> None:
    error = RuntimeError("bad request")
    assert not is_overflow(error)
    error.body = {"error": {"code": "context_length_exceeded"}}  # type: ignore[attr-defined]
    assert is_overflow(error)


@every_case("who", OTHERS)
def test_another_refusal_is_none(who: str) -> None:
    assert not is_overflow(OTHERS[who])
    assert not is_overflow({"error": {"message": OTHERS[who]}})


def test_our_own_errors_are_what_they_are_whatever_they_quote() -> None:
    assert is_overflow(ModelOverflow("whatever"))
    assert not is_overflow(ModelBusy("context_length_exceeded"))
    assert not is_overflow(ModelFailed("prompt is too long"))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text() | st.binary(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
        max_leaves=8,
    )
)
def test_anything_may_be_asked_about(said: object) -> None:
    assert is_overflow(said) in (True, False)


def test_a_body_without_end_is_read_quickly() -> None:
    assert not is_overflow("context " * 1_000_000)
    assert not is_overflow([["exceeds " * 10_000] * 1_000] * 1_000)
    nested: object = "prompt is too long"
    for _ in range(5_000):
        nested = [nested]
    assert not is_overflow(nested)
