"""Everything that can be refused, as one tree.

    VadeError
    ├── UsageError            the call itself is wrong: text, key, scope or type
    │   ├── InvalidText
    │   ├── InvalidKey
    │   ├── UnknownName
    │   └── ScopeUnresolved
    ├── ConfigError           a setting is unknown, of the wrong type, or not allowed there
    ├── NotFound              nothing by that name is visible from here
    ├── Ambiguous             more than one thing answers to that name
    ├── Refused               a rule forbids it
    │   ├── SecretFound
    │   ├── Untrusted
    │   ├── NotVisible
    │   ├── IncognitoWrite
    │   ├── NewerFormat       this memory folder was written by a newer version; reading still works
    │   ├── PendingReview     it waits until a person has decided
    │   ├── PersonsText       it would change what a person wrote or verified
    │   └── OutsideMemory
    ├── Malformed             a file cannot be read as what it should be
    ├── Collision             two names meet in one file, or a file is already there
    ├── Conflict              somebody else changed the same text; both versions were kept
    ├── Locked                another process holds it, and did not let go in time
    ├── IndexFailed           the index cannot be used; the files are untouched
    │   └── IndexNewer        a newer version made it
    ├── EmbedderFailed        no vectors: a model is missing, or a provider said no
    │   └── EmbedderChanged   a model gives vectors of another length than before
    ├── ModelFailed           no answer from a language model; all else works without one
    │   ├── ModelUnauthorised the key is missing, or is not taken
    │   ├── ModelBusy         too many requests, or the quota is used up
    │   ├── ModelOverflow     the prompt is larger than the model's window
    │   ├── ModelTimeout      no answer within the time limit
    │   ├── OverBudget        it would use more tokens than it may; nothing was sent
    │   └── ModelNonsense     there was an answer, and it is none
    ├── WindowFull            nothing more can leave the context window, and it is still too large
    ├── HostFailed            what the program around a session was asked for did not come
    └── StorageFailed         the disk said no

Each carries a `hint`: what to try next. Hints name only commands that exist.
"""


class VadeError(Exception):
    """What happened, to which thing, and what to try."""

    hint = "run `vade doctor` to see what is wrong with this memory"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        if hint is not None:
            self.hint = hint


class UsageError(VadeError):
    """The call itself is wrong."""

    hint = "run `vade --help` to see how it is called"


class InvalidText(UsageError):
    """The text is empty, too long, or not text."""

    hint = (
        "pass UTF-8 text without NUL bytes; long material belongs in a file attached with `vade sources add`"
    )


class InvalidKey(UsageError):
    """A key or id cannot be the name of a file."""

    hint = "use 1 to 60 of a-z, 0-9 and `-`, or pass `--slug` to convert it"


class UnknownName(UsageError):
    """A scope, type, mode or policy that does not exist."""

    hint = "run the command with `--help` to see the valid names"


class ScopeUnresolved(UsageError):
    """The scope needs an id that the caller's context does not give."""

    hint = "name the session with `--session` or VADE_SESSION, or choose another `--scope`"


class ConfigError(VadeError):
    """A setting is unknown, of the wrong type, or not allowed where it stands."""

    hint = "run `vade config` for the names and types of all settings"


class NotFound(VadeError):
    """Nothing by that name is visible from here."""

    hint = "run `vade list` to see what is here"


class Ambiguous(VadeError):
    """More than one thing answers to that name."""

    hint = "choose one with `--scope` or its number"


class Refused(VadeError):
    """A rule forbids it."""


class SecretFound(Refused):
    """The text holds a secret and the policy is to refuse."""

    hint = "remove the secret and save where to find it instead"


class Untrusted(Refused):
    """The folder was written by strangers and nobody has trusted it yet."""

    hint = "read what is in its `.vade/` folder, then run `vade trust` there"


class NotVisible(Refused):
    """This audience may not see or change that scope."""

    hint = "use a private session (`--audience private`)"


class IncognitoWrite(Refused):
    """An incognito session writes nothing."""

    hint = "leave incognito mode (`--incognito`, VADE_INCOGNITO, `incognito` in config.toml) to save memories"


class NewerFormat(Refused):
    """A newer version keeps this home in a way that this one must not write over; reading still works."""

    hint = "upgrade with `uv tool upgrade vademecum` or `pip install -U vademecum`; reading still works"
    why = "this memory folder was written by a newer version"  # for logs, without paths


class PendingReview(Refused):
    """It would take away what a person wrote, so it waits until a person decides; nothing changed yet."""

    hint = "it is pending: the user decides with `vade approve`; continue without it"

    def __init__(self, message: str, *, approval: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.approval = approval


class PersonsText(Refused):
    """It would change what a person wrote or verified."""

    hint = "save your own text next to it; the user decides with `vade approve`, or edits it"


class OutsideMemory(Refused):
    """The path leads out of memory, or through a link."""

    hint = "use a path from `vade list --json`"


class Malformed(VadeError):
    """A file cannot be read as what it should be; it is kept as it is."""

    hint = "fix it with any text editor; `vade status` lists all such files"


class Collision(VadeError):
    """Two names meet in one file, or a file is already there."""

    hint = "choose another name"


class Conflict(VadeError):
    """Somebody else changed the same text meanwhile; both versions were kept."""

    hint = "compare both versions and run the command again"


class Locked(VadeError):
    """Another process holds the lock and did not let go in time."""

    hint = "wait for that process, or kill it if it hangs; that releases its lock"


class EmbedderFailed(VadeError):
    """A text could not be turned into a vector; what words alone can find is still found."""

    hint = "keyword search still works; check the embedder's key, endpoint and model, or choose another"


class EmbedderChanged(EmbedderFailed):
    """A model gives vectors of another length than it gave before: those cannot be compared with these."""

    hint = "keyword search still works; run `vade index` to rebuild all vectors"

    def __init__(self, message: str, *, dimension: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.dimension = dimension


class ModelFailed(VadeError):
    """A language model gave no answer; everything that needs none still works."""

    hint = "models are optional; check its name, key and endpoint, or choose another with `model`"


class ModelUnauthorised(ModelFailed):
    """The provider's key is missing, or it does not take it."""

    hint = (
        "set the provider's key in the environment: OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY,"
        " or the variable that `llm.key_env` names"
    )


class ModelBusy(ModelFailed):
    """Too many requests, or the quota is used up."""

    hint = "wait a moment, or check the account's limits and credit"


class ModelOverflow(ModelFailed):
    """The prompt is larger than the model's context window."""

    hint = "send less, or choose a model with a larger context window"


class ModelTimeout(ModelFailed):
    """There was no whole answer within the time limit."""

    hint = "raise `llm.timeout`, or choose a faster model"


class OverBudget(ModelFailed):
    """The call would use more tokens than it may; nothing was sent."""

    hint = "raise `llm.budget`, or send less"


class ModelNonsense(ModelFailed):
    """There was an answer, and it is not what was asked for."""

    hint = "try again, or choose a model that follows instructions better"


class WindowFull(VadeError):
    """Nothing more can leave the window, and it is still too large."""

    hint = "use a model with a larger window, or fewer tools, or a shorter system prompt"


class HostFailed(VadeError):
    """A callback raised, did not answer in time, or answered nonsense."""

    hint = "the session continues without it; its transcript has the details"


class StorageFailed(VadeError):
    """The operating system refused to read or write."""

    hint = (
        "check free space and permissions, then run `vade status`: the change may or may not have been made"
    )


class IndexFailed(VadeError):
    """The index cannot be read or written; the files it is made from are untouched."""

    hint = "run `vade index --rebuild` to rebuild it from the files"


class IndexNewer(IndexFailed):
    """The index was made by a newer version, and is left as it is."""

    hint = "upgrade vade; until then, searches scan the files"
