"""`python …/conformance_fixture.py` is the server that the protocol's own conformance suite asks for.

Over the transport that memory is served by. It holds nothing of anybody and opens no memory, so it is served
without a token. Names, texts and shapes are the suite's.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import anyio
from mcp.server.caching import CacheHint
from mcp.server.lowlevel.server import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    CompleteResult,
    Completion,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    EmbeddedResource,
    EmptyResult,
    GetPromptResult,
    ImageContent,
    InputRequiredResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListRootsRequest,
    ListRootsResult,
    ListToolsResult,
    Prompt,
    PromptArgument,
    PromptMessage,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    SamplingMessage,
    TextContent,
    TextResourceContents,
    Tool,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from vademecum.interfaces.mcp import http

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcp.server.context import ServerRequestContext

    Context = ServerRequestContext[Any, Any]
    Result = CallToolResult | InputRequiredResult

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAAAA=="
_PAUSE = 0.05
_NOTHING: dict[str, Any] = {"type": "object", "properties": {}}
_NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def make() -> Server[Any]:
    """The suite's server."""
    bus = InMemorySubscriptionBus()
    calls = Calls(bus)
    hint = CacheHint(60_000, "public")
    server: Server[Any] = Server(
        "vademecum-fixture",
        version="1",
        on_list_tools=calls.list_tools,
        on_call_tool=calls.call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_subscribe_resource=taken,
        on_unsubscribe_resource=taken,
        on_subscriptions_listen=ListenHandler(bus),
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_completion=complete,
        cache_hints={
            "tools/list": hint,
            "prompts/list": hint,
            "resources/list": hint,
            "resources/templates/list": hint,
            "resources/read": hint,
            "server/discover": hint,
        },
    )
    from mcp_types import SetLevelRequestParams

    server.add_request_handler("logging/setLevel", SetLevelRequestParams, taken)
    server.middleware.append(
        RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience="vademecum-fixture")
    )
    return server


async def taken(context: Context, params: Any) -> EmptyResult:
    """Accept what needs no answer."""
    return EmptyResult()


def said(*texts: str, error: bool = False) -> CallToolResult:
    """An answer in words."""
    return CallToolResult(content=[TextContent(text=each) for each in texts], is_error=error)


# ---------------------------------------------------------------- asking the client


def ask(message: str, schema: Mapping[str, Any]) -> ElicitRequest:
    """A question to the person."""
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=dict(schema)))


def sample(prompt: str, tokens: int) -> CreateMessageRequest:
    """A question to the client's model."""
    message = SamplingMessage(role="user", content=TextContent(text=prompt))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=tokens))


def text_of(answer: Any) -> str:
    """What a client's model said."""
    content = getattr(answer, "content", None)
    return content.text if isinstance(content, TextContent) else str(content)


class Calls:
    """The tools."""

    def __init__(self, bus: InMemorySubscriptionBus) -> None:
        self._bus = bus
        self._tools: Mapping[str, tuple[dict[str, Any], Callable[[Context, Any], Awaitable[Result]]]] = {
            "test_simple_text": (_NOTHING, _simple),
            "test_image_content": (_NOTHING, _image),
            "test_audio_content": (_NOTHING, _audio),
            "test_embedded_resource": (_NOTHING, _embedded),
            "test_multiple_content_types": (_NOTHING, _mixed),
            "test_tool_with_logging": (_NOTHING, _logging),
            "test_logging_tool": (_NOTHING, _logging),
            "test_error_handling": (_NOTHING, _failing),
            "test_tool_with_progress": (_NOTHING, _progress),
            "test_sampling": (_with("prompt"), _sampling),
            "test_elicitation": (_with("message"), _elicitation),
            "test_elicitation_sep1034_defaults": (_NOTHING, _defaults),
            "test_elicitation_sep1330_enums": (_NOTHING, _enums),
            "test_streaming_elicitation": (_NOTHING, _name_wanted),
            "test_missing_capability": (_NOTHING, _capability_wanted),
            "test_trigger_tool_change": (_NOTHING, self._tools_change),
            "test_trigger_prompt_change": (_NOTHING, self._prompts_change),
            "test_input_required_result_elicitation": (_NOTHING, _name_wanted),
            "test_input_required_result_sampling": (_NOTHING, _capital_wanted),
            "test_input_required_result_list_roots": (_NOTHING, _roots_wanted),
            "test_input_required_result_request_state": (_NOTHING, _state_wanted),
            "test_input_required_result_tampered_state": (_NOTHING, _state_wanted),
            "test_input_required_result_multiple_inputs": (_NOTHING, _several_wanted),
            "test_input_required_result_multi_round": (_NOTHING, _two_rounds),
            "test_input_required_result_capabilities": (_NOTHING, _what_is_possible),
            "json_schema_2020_12_tool": (_SCHEMA_2020, _simple),
        }

    async def list_tools(self, context: Context, params: Any) -> ListToolsResult:
        """All of them."""
        return ListToolsResult(
            tools=[
                Tool(name=name, description=f"The suite's {name}.", input_schema=schema)
                for name, (schema, _) in self._tools.items()
            ]
        )

    async def call_tool(self, context: Context, params: Any) -> Result:
        """One of them."""
        found = self._tools.get(params.name)
        if found is None:
            raise MCPError(code=INVALID_PARAMS, message=f"Unknown tool: {params.name}")
        return await found[1](context, params)

    async def _tools_change(self, context: Context, params: Any) -> Result:
        await self._bus.publish(ToolsListChanged())
        return said("The list of tools changed.")

    async def _prompts_change(self, context: Context, params: Any) -> Result:
        await self._bus.publish(PromptsListChanged())
        return said("The list of prompts changed.")


def _with(name: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}


async def _simple(context: Context, params: Any) -> Result:
    return said("This is a simple text response for testing.")


async def _image(context: Context, params: Any) -> Result:
    return CallToolResult(content=[ImageContent(data=PNG, mime_type="image/png")])


async def _audio(context: Context, params: Any) -> Result:
    return CallToolResult(content=[AudioContent(data=WAV, mime_type="audio/wav")])


def _resource(uri: str, kind: str, text: str) -> EmbeddedResource:
    return EmbeddedResource(resource=TextResourceContents(uri=uri, mime_type=kind, text=text))


async def _embedded(context: Context, params: Any) -> Result:
    text = "This is an embedded resource content."
    return CallToolResult(content=[_resource("test://embedded-resource", "text/plain", text)])


async def _mixed(context: Context, params: Any) -> Result:
    value = json.dumps({"test": "data", "value": 123}, separators=(",", ":"))
    return CallToolResult(
        content=[
            TextContent(text="Multiple content types test:"),
            ImageContent(data=PNG, mime_type="image/png"),
            _resource("test://mixed-content-resource", "application/json", value),
        ]
    )


async def _logging(context: Context, params: Any) -> Result:
    for number, message in enumerate(
        ("Tool execution started", "Tool processing data", "Tool execution completed")
    ):
        await anyio.sleep(_PAUSE if number else 0)
        send = context.session.send_log_message
        await send("info", message, related_request_id=context.request_id)
    return said("Tool with logging executed successfully")


async def _failing(context: Context, params: Any) -> Result:
    return said("This tool intentionally returns an error for testing", error=True)


async def _progress(context: Context, params: Any) -> Result:
    for done in (0, 50, 100):
        await anyio.sleep(_PAUSE if done else 0)
        await context.session.report_progress(done, 100, f"{done} of 100")
    return said("Tool with progress executed successfully")


async def _sampling(context: Context, params: Any) -> Result:
    answer = await context.session.create_message(
        [SamplingMessage(role="user", content=TextContent(text=params.arguments["prompt"]))],
        max_tokens=100,
        related_request_id=context.request_id,
    )
    return said(f"LLM response: {text_of(answer)}")


async def _asked(context: Context, message: str, schema: dict[str, Any], form: str) -> Result:
    answer = await context.session.elicit_form(message, schema, related_request_id=context.request_id)
    return said(form.format(action=answer.action, content=json.dumps(answer.content)))


async def _elicitation(context: Context, params: Any) -> Result:
    schema = {
        "type": "object",
        "properties": {
            "username": {"type": "string", "description": "User's response"},
            "email": {"type": "string", "description": "User's email address"},
        },
        "required": ["username", "email"],
    }
    return await _asked(
        context, params.arguments["message"], schema, "User response: action: {action}, content: {content}"
    )


_DONE = "Elicitation completed: action={action}, content={content}"


async def _defaults(context: Context, params: Any) -> Result:
    status = {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"}
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": status,
            "verified": {"type": "boolean", "default": True},
        },
    }
    return await _asked(context, "Please look at the defaults", schema, _DONE)


def _titled(kind: str) -> list[dict[str, str]]:
    return [
        {"const": f"value{number}", "title": f"{word} {kind}"}
        for number, word in enumerate(("First", "Second", "Third"), 1)
    ]


async def _enums(context: Context, params: Any) -> Result:
    plain = {"type": "string", "enum": ["option1", "option2", "option3"]}
    schema = {
        "type": "object",
        "properties": {
            "untitledSingle": plain,
            "titledSingle": {"type": "string", "oneOf": _titled("Option")},
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": {"type": "array", "items": plain},
            "titledMulti": {"type": "array", "items": {"anyOf": _titled("Choice")}},
        },
    }
    return await _asked(context, "Please choose", schema, _DONE)


# ---------------------------------------------------------------- asking between two calls


def _answers(params: Any) -> Mapping[str, Any]:
    return params.input_responses or {}


async def _name_wanted(context: Context, params: Any) -> Result:
    answer = _answers(params).get("user_name")
    name = (answer.content or {}).get("name") if isinstance(answer, ElicitResult) else None
    if not isinstance(name, str):
        return InputRequiredResult(input_requests={"user_name": ask("What is your name?", _NAME)})
    return said(f"Hello, {name}!")


async def _capital_wanted(context: Context, params: Any) -> Result:
    answer = _answers(params).get("capital_question")
    if not isinstance(answer, CreateMessageResult):
        wanted = sample("What is the capital of France?", 100)
        return InputRequiredResult(input_requests={"capital_question": wanted})
    return said(text_of(answer))


async def _roots_wanted(context: Context, params: Any) -> Result:
    answer = _answers(params).get("client_roots")
    if not isinstance(answer, ListRootsResult):
        return InputRequiredResult(input_requests={"client_roots": ListRootsRequest()})
    return said("Roots: " + ", ".join(str(root.uri) for root in answer.roots))


async def _state_wanted(context: Context, params: Any) -> Result:
    if params.request_state != "asked" or "confirm" not in _answers(params):
        schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
        wanted = ask("Please confirm", schema)
        return InputRequiredResult(input_requests={"confirm": wanted}, request_state="asked")
    return said("state-ok")


async def _several_wanted(context: Context, params: Any) -> Result:
    given = _answers(params)
    if not {"user_name", "greeting", "client_roots"} <= set(given) or params.request_state != "asked":
        return InputRequiredResult(
            input_requests={
                "user_name": ask("What is your name?", _NAME),
                "greeting": sample("Generate a greeting", 50),
                "client_roots": ListRootsRequest(),
            },
            request_state="asked",
        )
    return said("All three were answered.")


async def _two_rounds(context: Context, params: Any) -> Result:
    given, state = _answers(params), params.request_state
    if state == "second" and "step2" in given:
        return said("Both steps were answered.")
    if state == "first" and "step1" in given:
        schema = {"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]}
        wanted = ask("Step 2: What is your favorite color?", schema)
        return InputRequiredResult(input_requests={"step2": wanted}, request_state="second")
    wanted = ask("Step 1: What is your name?", _NAME)
    return InputRequiredResult(input_requests={"step1": wanted}, request_state="first")


async def _what_is_possible(context: Context, params: Any) -> Result:
    declared = context.session.client_capabilities
    wanted: dict[str, Any] = {}
    if declared and declared.elicitation is not None:
        wanted["user_name"] = ask("What is your name?", _NAME)
    if declared and declared.sampling is not None:
        wanted["greeting"] = sample("Generate a greeting", 50)
    if not wanted or set(wanted) <= set(_answers(params)):
        return said("Nothing more is needed.")
    return InputRequiredResult(input_requests=wanted)


async def _capability_wanted(context: Context, params: Any) -> Result:
    declared = context.session.client_capabilities
    if context.protocol_version in MODERN_PROTOCOL_VERSIONS and (not declared or declared.sampling is None):
        raise MCPError(
            code=MISSING_REQUIRED_CLIENT_CAPABILITY,
            message="this needs sampling",
            data={"requiredCapabilities": {"sampling": {}}},
        )
    return said("The client can do what is needed.")


_SCHEMA_2020: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


# ---------------------------------------------------------------- resources and prompts


async def list_resources(context: Context, params: Any) -> ListResourcesResult:
    """The resources that are there for good."""
    return ListResourcesResult(
        resources=[
            Resource(name=name, uri=f"test://{name}", description=f"The suite's {name}.", mime_type=kind)
            for name, kind in (
                ("static-text", "text/plain"),
                ("static-binary", "image/png"),
                ("watched-resource", "text/plain"),
            )
        ]
    )


async def list_templates(context: Context, params: Any) -> ListResourceTemplatesResult:
    """The resources that are made on demand."""
    template = ResourceTemplate(
        name="template", uri_template="test://template/{id}/data", mime_type="application/json"
    )
    return ListResourceTemplatesResult(resource_templates=[template])


async def read_resource(context: Context, params: Any) -> ReadResourceResult:
    """One of them."""
    uri = str(params.uri)
    made: TextResourceContents | BlobResourceContents
    if uri == "test://static-text":
        text = "This is the content of the static text resource."
        made = TextResourceContents(uri=uri, mime_type="text/plain", text=text)
    elif uri == "test://watched-resource":
        made = TextResourceContents(uri=uri, mime_type="text/plain", text="Watched resource content")
    elif uri == "test://static-binary":
        made = BlobResourceContents(uri=uri, mime_type="image/png", blob=PNG)
    elif uri.startswith("test://template/") and uri.endswith("/data"):
        id = uri.removeprefix("test://template/").removesuffix("/data")
        value = json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})
        made = TextResourceContents(uri=uri, mime_type="application/json", text=value)
    else:
        raise MCPError(code=INVALID_PARAMS, message="Resource not found", data={"uri": uri})
    return ReadResourceResult(contents=[made])


async def list_prompts(context: Context, params: Any) -> ListPromptsResult:
    """The prompts."""
    wanted: Mapping[str, tuple[str, ...]] = {
        "test_simple_prompt": (),
        "test_prompt_with_arguments": ("arg1", "arg2"),
        "test_prompt_with_embedded_resource": ("resourceUri",),
        "test_prompt_with_image": (),
        "test_input_required_result_prompt": (),
    }
    return ListPromptsResult(
        prompts=[
            Prompt(
                name=name,
                description=f"The suite's {name}.",
                arguments=[PromptArgument(name=each, required=True) for each in arguments],
            )
            for name, arguments in wanted.items()
        ]
    )


async def get_prompt(context: Context, params: Any) -> GetPromptResult | InputRequiredResult:
    """One of them."""
    given = params.arguments or {}
    if params.name == "test_simple_prompt":
        return _prompt(TextContent(text="This is a simple prompt for testing."))
    if params.name == "test_prompt_with_arguments":
        text = f"Prompt with arguments: arg1='{given.get('arg1')}', arg2='{given.get('arg2')}'"
        return _prompt(TextContent(text=text))
    if params.name == "test_prompt_with_embedded_resource":
        text = "Embedded resource content for testing."
        return _prompt(
            _resource(given.get("resourceUri", ""), "text/plain", text),
            TextContent(text="Please process the embedded resource above."),
        )
    if params.name == "test_prompt_with_image":
        return _prompt(
            ImageContent(data=PNG, mime_type="image/png"),
            TextContent(text="Please analyze the image above."),
        )
    if params.name == "test_input_required_result_prompt":
        answer = _answers(params).get("user_context")
        if not isinstance(answer, ElicitResult):
            schema = {
                "type": "object",
                "properties": {"context": {"type": "string"}},
                "required": ["context"],
            }
            wanted = ask("What context should the prompt use?", schema)
            return InputRequiredResult(input_requests={"user_context": wanted})
        return _prompt(TextContent(text=f"The context is {json.dumps(answer.content)}."))
    raise MCPError(code=INVALID_PARAMS, message=f"Unknown prompt: {params.name}")


def _prompt(*contents: Any) -> GetPromptResult:
    return GetPromptResult(messages=[PromptMessage(role="user", content=each) for each in contents])


async def complete(context: Context, params: Any) -> CompleteResult:
    """Words that begin as asked."""
    words = [each for each in ("paris", "park", "party") if each.startswith(params.argument.value)]
    return CompleteResult(completion=Completion(values=words, total=len(words), has_more=False))


if __name__ == "__main__":
    # The address is told on standard output, which stays open for nothing else.
    http.serve(http.application(make()), http.listen(0), token=None, ready=lambda url: print(url, flush=True))
