"""The tree of all errors that memory raises.

    VadeError
    ├── UsageError            the call itself is wrong: text, key, scope or type
    │   ├── InvalidText
    │   ├── InvalidKey
    │   ├── UnknownName
    │   └── ScopeUnresolved
    ├── ConfigError           a setting is unknown, of the wrong type, or not allowed there
    ├── NotFound              nothing with this name is visible to the caller
    ├── Ambiguous             several things have the given name
    ├── Refused               a rule forbids the call
    │   ├── SecretFound
    │   ├── Untrusted
    │   ├── NotVisible
    │   ├── IncognitoWrite
    │   ├── NewerFormat       this memory folder was written by a newer version; reading still works
    │   ├── PendingReview     the change waits until a person has decided
    │   ├── PersonsText       the change would alter a text that a person wrote or verified
    │   └── OutsideMemory
    ├── Malformed             a file cannot be read as the kind of file that it should be
    ├── Collision             two names need the same file, or the file exists already
    ├── Conflict              somebody else changed the same text; both versions were kept
    ├── Locked                another process holds a lock, and did not release it in time
    ├── IndexFailed           the index cannot be used; the files are untouched
    │   └── IndexNewer        a newer version made the index
    ├── EmbedderFailed        no vectors: a model is missing, or a provider refused
    │   └── EmbedderChanged   a model gives vectors of another length than before
    ├── ModelFailed           no answer from a language model; all else still works
    │   ├── ModelUnauthorised the key is missing, or the provider does not accept it
    │   ├── ModelBusy         too many requests, or the quota is used up
    │   ├── ModelOverflow     the prompt is larger than the model's window
    │   ├── ModelTimeout      no answer within the time limit
    │   ├── OverBudget        the call would use too many tokens; nothing was sent
    │   └── ModelNonsense     the answer does not have the form that was asked for
    ├── WindowFull            the context window is too large, and nothing more can be removed
    ├── HostFailed            a callback of the program around a session failed
    └── StorageFailed         the operating system refused to read or write a file

Each error has a `hint` that says what to try next. Hints name only commands that exist.
"""


class VadeError(Exception):
    """The base of all errors; its message says what happened, to which thing, and what to try next."""

    hint = "run `vade doctor` to see what is wrong with this memory"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        if hint is not None:
            self.hint = hint


class UsageError(VadeError):
    """The call itself is wrong: its text, key, scope or type."""

    hint = "run `vade --help` to see how it is called"


class InvalidText(UsageError):
    """The given text is empty, too long, or not text at all."""

    hint = (
        "pass UTF-8 text without NUL bytes; long material belongs in a file attached with `vade sources add`"
    )


class InvalidKey(UsageError):
    """The given key or id cannot be the name of a file."""

    hint = "use 1 to 60 of a-z, 0-9 and `-`, or pass `--slug` to convert it"


class UnknownName(UsageError):
    """No scope, type, mode or policy has the given name."""

    hint = "run the command with `--help` to see the valid names"


class ScopeUnresolved(UsageError):
    """The scope needs the id of a session, project or agent, which the caller did not give."""

    hint = "name the session with `--session` or VADE_SESSION, or choose another `--scope`"


class ConfigError(VadeError):
    """A setting is unknown, of the wrong type, or not allowed where it stands."""

    hint = "run `vade config` for the names and types of all settings"


class NotFound(VadeError):
    """Nothing with this name is visible to the caller."""

    hint = "run `vade list` to see what is here"


class Ambiguous(VadeError):
    """Several things have the given name."""

    hint = "choose one with `--scope` or its number"


class Refused(VadeError):
    """A rule forbids the call."""


class SecretFound(Refused):
    """The text contains a secret, and the settings refuse such texts."""

    hint = "remove the secret and save where to find it instead"


class Untrusted(Refused):
    """The folder was written by strangers, and the user has not trusted it yet."""

    hint = "read what is in its `.vade/` folder, then run `vade review trust` there"


class NotVisible(Refused):
    """The readers of this output may not see or change the scope."""

    hint = "use a private session (`--audience private`)"


class IncognitoWrite(Refused):
    """The session is incognito, in which nothing is written."""

    hint = "leave incognito mode (`--incognito`, VADE_INCOGNITO, `incognito` in config.toml) to save memories"


class NewerFormat(Refused):
    """A newer version made this home in a format that this version must not write; it can still read."""

    hint = "upgrade with `uv tool upgrade vademecum` or `pip install -U vademecum`; reading still works"
    why = "this memory folder was written by a newer version"  # for logs, without paths


class PendingReview(Refused):
    """The change would remove a person's text, so it is not made until a person has decided about it."""

    hint = "the user decides with `vade review approve`; continue without it"

    def __init__(self, message: str, *, approval: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.approval = approval


class PersonsText(Refused):
    """The change would alter a text that a person wrote or verified."""

    hint = "save your own text next to it; the user decides with `vade review approve`, or edits it"


class OutsideMemory(Refused):
    """The path points outside of the memory's folder, or goes through a link."""

    hint = "use a path from `vade list --json`"


class Malformed(VadeError):
    """A file cannot be read as the kind of file that it should be; the file stays as it is."""

    hint = "fix it with any text editor; `vade status` lists all such files"


class Collision(VadeError):
    """Two names would need the same file, or the file exists already."""

    hint = "choose another name"


class Conflict(VadeError):
    """Another process or person changed the same text meanwhile; both versions were kept."""

    hint = "compare both versions and run the command again"


class Locked(VadeError):
    """Another process holds a lock, and did not release it in time."""

    hint = "wait for that process, or kill it if it hangs; that releases its lock"


class EmbedderFailed(VadeError):
    """No vector could be made for a text; a search by words alone still works."""

    hint = "keyword search still works; check the embedder's key, endpoint and model, or choose another"


class EmbedderChanged(EmbedderFailed):
    """A model's vectors have another length than before, so that new and old cannot be compared."""

    hint = "keyword search still works; run `vade index` to rebuild all vectors"

    def __init__(self, message: str, *, dimension: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.dimension = dimension


class ModelFailed(VadeError):
    """A language model gave no answer; all that needs no model still works."""

    hint = "models are optional; check its name, key and endpoint, or choose another with `model`"


class ModelUnauthorised(ModelFailed):
    """The key for a language model is missing, or the provider does not accept it."""

    hint = (
        "set the provider's key in the environment: OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY,"
        " or the variable that `llm.key_env` names"
    )


class ModelBusy(ModelFailed):
    """The language model has too many requests, or the user's quota is used up."""

    hint = "wait a moment, or check the account's limits and credit"


class ModelOverflow(ModelFailed):
    """The prompt is larger than the context window of the language model."""

    hint = "send less, or choose a model with a larger context window"


class ModelTimeout(ModelFailed):
    """The language model gave no complete answer within the time limit."""

    hint = "raise `llm.timeout`, or choose a faster model"


class OverBudget(ModelFailed):
    """The call would use more tokens than its budget allows; nothing was sent."""

    hint = "raise `llm.budget`, or send less"


class ModelNonsense(ModelFailed):
    """The language model gave an answer that does not have the form that was asked for."""

    hint = "try again, or choose a model that follows instructions better"


class WindowFull(VadeError):
    """The context window is too large, and nothing more can be removed from it."""

    hint = "use a model with a larger window, or fewer tools, or a shorter system prompt"


class HostFailed(VadeError):
    """A callback of the program around a session failed, took too long, or returned an invalid value."""

    hint = "the session continues without it; its transcript has the details"


class StorageFailed(VadeError):
    """The operating system refused to read or write a file."""

    hint = (
        "check free space and permissions, then run `vade status`: the change may or may not have been made"
    )


class IndexFailed(VadeError):
    """The index cannot be read or written; the files that it is made from are untouched."""

    hint = "run `vade index --rebuild` to rebuild it from the files"


class IndexNewer(IndexFailed):
    """A newer version made the index; it is set aside, and a new index is made."""

    hint = "upgrade vade; until then, searches scan the files"
