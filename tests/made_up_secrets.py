"""Made-up secrets of every kind, in the texts in which people and programs leave them.

They are built from parts when the tests run, so that no scanner finds a credential in this file.
"""

from __future__ import annotations

import base64
import json
import re
import string
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vademecum.text.secrets import RULES, find, read_rules, redact

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

SEED = 20261115

# --- secrets ------------------------------------------------------------------------------------------------

ALNUM = string.ascii_letters + string.digits
WORD = ALNUM + "_-"
HEX = "0123456789abcdef"
BASE64 = ALNUM + "+/"
UPPER = string.ascii_uppercase + string.digits
LOWER = string.ascii_lowercase + string.digits


@dataclass(frozen=True, slots=True)
class Sample:
    """A text that holds a secret; none of `pieces` may be left in what is kept."""

    kind: str
    carrier: str
    text: str
    pieces: tuple[str, ...]


def draw(rng: random.Random, alphabet: str, size: int) -> str:
    return "".join(rng.choices(alphabet, k=size))


def halves(value: str) -> tuple[str, ...]:
    return value[: len(value) // 2], value[len(value) // 2 :]


# kind: (prefix, alphabet, size), joined with nothing in between
SHAPED: dict[str, list[tuple[str, str, int]]] = {
    "anthropic-key": [("sk-" + "ant-api03-", WORD, 93)],
    "openrouter-key": [("sk-" + "or-v1-", HEX, 64)],
    "openai-key": [("sk-" + "proj-", WORD, 120), ("sk-" + "svcacct-", WORD, 80), ("sk" + "-", ALNUM, 48)],
    "huggingface-token": [("hf" + "_", string.ascii_letters, 34)],
    "groq-key": [("gsk" + "_", ALNUM, 52)],
    "xai-key": [("xai" + "-", ALNUM, 80)],
    "perplexity-key": [("pplx" + "-", ALNUM, 48)],
    "replicate-token": [("r8" + "_", ALNUM, 37)],
    "nvidia-key": [("nvapi" + "-", WORD, 64)],
    "langsmith-key": [("lsv2" + "_pt_", HEX, 42)],
    "aws-access-key": [("AKI" + "A", UPPER, 16), ("ASI" + "A", UPPER, 16)],
    "gcp-api-key": [("AI" + "za", WORD, 35)],
    "google-oauth-secret": [("GOC" + "SPX-", WORD, 28)],
    "google-oauth-token": [("ya" + "29.", WORD, 120)],
    "digitalocean-token": [("dop" + "_v1_", HEX, 64)],
    "databricks-token": [("da" + "pi", HEX, 32)],
    "github-token": [
        *((f"gh{letter}" + "_", ALNUM, 36) for letter in "pousr"),
        ("github" + "_pat_", ALNUM, 82),
    ],
    "gitlab-token": [("gl" + "pat-", WORD, 20), ("gl" + "dt-", WORD, 20), ("gl" + "rt-", WORD, 20)],
    "bitbucket-password": [("AT" + "BB", ALNUM, 32)],
    "atlassian-token": [("ATA" + "TT3", ALNUM, 180)],
    "npm-token": [("npm" + "_", ALNUM, 36)],
    "pypi-token": [("pypi" + "-AgEIcHlwaS5vcmc", WORD, 120)],
    "docker-token": [("dckr" + "_pat_", WORD, 27)],
    "slack-token": [
        ("xo" + "xb-", string.digits, 12),
        ("xo" + "xp-", string.digits, 12),
        ("xap" + "p-1-A", UPPER, 40),
    ],
    "twilio-key": [("S" + "K", HEX, 32)],
    "mailgun-key": [("ke" + "y-", HEX, 32)],
    "stripe-key": [("sk" + "_live_", ALNUM, 24), ("rk" + "_live_", ALNUM, 24), ("sk" + "_test_", ALNUM, 99)],
    "stripe-webhook-secret": [("wh" + "sec_", ALNUM, 32)],
    "shopify-token": [("shp" + "at_", HEX, 32), ("shp" + "ss_", HEX, 32)],
    "vault-token": [("hv" + "s.", WORD, 95)],
    "grafana-token": [("gl" + "sa_", ALNUM, 41)],
    "linear-key": [("lin" + "_api_", ALNUM, 40)],
    "notion-token": [("nt" + "n_", ALNUM, 46), ("sec" + "ret_", ALNUM, 43)],
    "pinecone-key": [("pc" + "sk_", ALNUM, 70)],
    "supabase-key": [("sb" + "p_", HEX, 40)],
    "postman-key": [("PMA" + "K-", HEX, 24)],
}


def shaped(rng: random.Random, kind: str, turn: int) -> str:
    """Make the next secret of a kind that has a shape of its own."""
    forms = SHAPED[kind]
    prefix, alphabet, size = forms[turn % len(forms)]
    value = prefix + rng.choice(ALNUM if alphabet == WORD else alphabet) + draw(rng, alphabet, size - 1)
    if kind == "slack-token" and "-1-" not in prefix:
        value += f"-{draw(rng, string.digits, 13)}-{draw(rng, ALNUM, 24)}"
    if kind == "postman-key":
        value += "-" + draw(rng, HEX, 34)
    return value


ALPHABETS = {"A": ALNUM, "W": WORD, "B": BASE64, "H": HEX, "D": string.digits, "U": UPPER, "L": LOWER}


def filled(rng: random.Random, example: str) -> tuple[str, tuple[str, ...]]:
    """The example of a rule with its places filled by chance, and what was put there."""
    parts: list[str] = []

    def fill(place: re.Match[str]) -> str:
        parts.append(draw(rng, ALPHABETS[place[1]], int(place[2])))
        return parts[-1]

    return re.sub(r"<([AWBHDUL])([0-9]+)>", fill, example), tuple(parts)


def compound(rng: random.Random) -> dict[str, str]:
    """Make one each of the secrets that are more than a prefix and a run."""
    head, body = (
        {"alg": "HS256", "typ": "JWT"},
        {"sub": draw(rng, string.digits, 10), "name": "Ada", "iat": 1},
    )
    packed = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in (head, body)
    ]
    return {
        "jwt": ".".join([*packed, draw(rng, WORD, 43)]),
        "sendgrid-key": f"{'S' + 'G'}.{draw(rng, ALNUM, 22)}.{draw(rng, ALNUM, 43)}",
        "discord-token": f"M{draw(rng, ALNUM, 25)}.{draw(rng, ALNUM, 6)}.{draw(rng, ALNUM, 38)}",
        "telegram-token": f"{rng.randrange(10**8, 10**10)}:A{'A'}{draw(rng, ALNUM, 33)}",
        "terraform-token": f"{draw(rng, ALNUM, 14)}.atlas{'v1'}.{draw(rng, ALNUM, 66)}",
        "azure-client-secret": f"{draw(rng, ALNUM, 3)}8Q{'~'}{draw(rng, ALNUM, 34)}",
        "mailchimp-key": f"{draw(rng, HEX, 32)}-us{rng.randrange(1, 21)}",
    }


def carriers(value: str) -> dict[str, str]:
    """Put a value that is known by its shape into the places where people leave such values."""
    return {
        "bare": value,
        "prose": f"I rotated it yesterday, the new one is {value}, please update the runner.",
        "env": f"export SERVICE_TOKEN={value}",
        "json": json.dumps({"name": "ci", "api_key": value, "retries": 3}),
        "escaped json": json.dumps({"content": json.dumps({"key": value}) + "\nnext"}),
        "yaml": f"deploy:\n  region: eu-west-1\n  credential: {value}\n  replicas: 3",
        "url": f"https://api.acme.dev/v1/items?access_token={value}&page=2",
        "code": f'client = Client(base_url=URL, token="{value}", timeout=30)',
        "header": f"curl -H 'Authorization: Bearer {value}' https://api.acme.dev/v1/me",
        "markdown": f"## Setup\n\n- staging key: `{value}` (ask Mira)\n- region: eu\n",
        "log": f"2026-11-15T10:30:00Z ERROR auth failed for key [{value}] after 3 tries",
        "after escape": f'{{"content": "here it is:\\n{value}\\nthanks"}}',
        "zero width": f"it is {value[:6]}\u200b{value[6:15]}\u2060{value[15:]} now",
        "cjk": f"新しいキーは{value}です。",
    }


def named(rng: random.Random) -> Iterator[tuple[str, str, str]]:
    """Make secrets that only their names give away: kind, name, value."""
    for kind, names, alphabet, size in (
        ("aws-secret-key", ("AWS_SECRET_ACCESS_KEY", "aws_secret_access_key", "SecretAccessKey"), BASE64, 40),
        ("mistral-credential", ("MISTRAL_API_KEY", "mistral_key"), ALNUM, 32),
        ("cohere-credential", ("COHERE_API_KEY", "CO_COHERE_TOKEN"), ALNUM, 40),
        ("cloudflare-credential", ("CLOUDFLARE_API_TOKEN", "cloudflare_api_key"), WORD, 40),
        ("twilio-credential", ("TWILIO_AUTH_TOKEN", "twilio_auth_token"), HEX, 32),
        ("datadog-credential", ("DATADOG_API_KEY", "datadog_app_key"), HEX, 32),
        ("azure-credential", ("AZURE_CLIENT_SECRET", "azureStorageKey"), ALNUM, 44),
        ("mailgun-credential", ("MAILGUN_API_KEY",), HEX, 50),
        ("secret", ("client_secret", "clientSecret", "SESSION_SECRET", "SECRET_KEY_BASE"), ALNUM, 32),
        ("api-key", ("api_key", "X-Api-Key", "apiKey", "encryption_key"), LOWER, 32),
        ("token", ("token", "ACCESS_TOKEN", "refresh_token", "authToken"), WORD, 36),
    ):
        for name in names:
            yield kind, name, rng.choice(ALNUM) + draw(rng, alphabet, size - 2) + rng.choice(ALNUM)
    for name in ("HEROKU_API_KEY", "heroku_api_key"):
        yield "heroku-credential", name, "-".join(draw(rng, HEX, size) for size in (8, 4, 4, 4, 12))
    words = ("Falcon", "quartz", "Maple", "river", "Gravel", "orchid", "Tundra", "saffron")
    for name in (
        "password",
        "DB_PASSWORD",
        "passwd",
        "smtp_pass",
        "passphrase",
        "adminPassword",
        "PGPASSWORD",
    ):
        yield "password", name, draw(rng, ALNUM, 9) + rng.choice("!#%&*+") + draw(rng, ALNUM, 2) + "7k"
        yield "password", name, f"{rng.choice(words)}{rng.randrange(10, 9999)}{rng.choice(words)}!"
        yield "password", name, f"{rng.choice(words)}{rng.choice(words)}{rng.randrange(10, 9999)}"


def assignments(name: str, value: str) -> dict[str, str]:
    """Assign a value to a name in the ways that configuration, code and people do."""
    return {
        "env": f"export {name}={value}",
        "dotenv": f'{name}="{value}"',
        "json": json.dumps({"host": "db1", name: value}),
        "escaped json": json.dumps({"content": json.dumps({name: value})}),
        "yaml": f"service:\n  {name}: {value}\n  port: 5432",
        "python": f"{name.replace('-', '_')} = '{value}'",
        "typescript": f'const {name.replace("-", "_")}: string = "{value}";',
        "annotated": f'    {name.replace("-", "_")}: str = "{value}"',
        "subscript": f'config["{name}"] = "{value}"',
        "option": f"deploy --{name.lower().replace('_', '-')} {value} --region eu",
        "xml": f"<{name}>{value}</{name}>",
        "markdown": f"**{name}**: `{value}`",
        "table": f"| {name} | `{value}` | set on 2026-11-15 |",
        "header": f'curl -H "{name}: {value}" https://api.acme.dev',
    }


def blocks(rng: random.Random) -> Iterator[Sample]:
    """Make private keys, whole, escaped, quoted, indented and cut off."""
    for label in (
        "RSA PRIVATE",
        "EC PRIVATE",
        "OPENSSH PRIVATE",
        "PRIVATE",
        "ENCRYPTED PRIVATE",
        "PGP PRIVATE",
    ):
        lines = [draw(rng, BASE64, 64) for _ in range(rng.randrange(3, 12))] + [draw(rng, BASE64, 21) + "=="]
        tail = " BLOCK" if "PGP" in label else ""
        begin, end = (f"-----{word} {label} KEY{tail}-----" for word in ("BEGIN", "END"))
        head = ["Version: GnuPG v2", ""] if tail else []
        head = ["Proc-Type: 4,ENCRYPTED", "DEK-Info: AES-128-CBC,0A1B2C", ""] if "RSA" in label else head
        block = "\n".join([begin, *head, *lines, end])
        account = json.dumps({"type": "service_account", "private_key": block + "\n", "client_id": "1"})
        kind = "private-key"
        for carrier, kind, text in (
            ("bare", "private-key", block),
            ("prose", "private-key", f"The deploy key:\n\n```\n{block}\n```\nKeep it safe."),
            ("indented", "private-key", "key: |\n" + "\n".join("    " + line for line in block.split("\n"))),
            ("quoted", "private-key", "\n".join("> " + line for line in block.split("\n"))),
            ("escaped", "private-key", 'KEY="' + block.replace("\n", "\\n") + '"'),
            ("service account", "gcp-service-account", account),
            ("doubly escaped", "gcp-service-account", json.dumps({"content": account})),
            ("one line", "private-key", "KEY=" + block.replace("\n", " ")),
            ("cut off", "private-key", block[: len(begin) + len("\n".join(head)) + 140]),
        ):
            yield Sample(kind, carrier, text, tuple(line[:40] for line in lines))


def addresses(rng: random.Random) -> Iterator[Sample]:
    """Make addresses and connection strings that hold what opens them."""
    for _ in range(3):
        for scheme in ("postgresql", "mysql", "redis", "amqp", "mongodb+srv", "https", "ftp"):
            value = draw(rng, ALNUM, 14)
            text = f"DATABASE_URL={scheme}://svc_{draw(rng, LOWER, 4)}:{value}@db1.acme.dev:5432/app"
            yield Sample("url-password", "connection", text, halves(value))
        value = draw(rng, ALNUM, 12)
        yield Sample("url-password", "curl", f"curl -u mira:{value} https://ci.acme.dev/job/7", halves(value))
        value = draw(rng, BASE64, 86) + "=="
        text = (
            f"DefaultEndpointsProtocol=https;AccountName=acme;{'Account' + 'Key'}={value};EndpointSuffix=core"
        )
        yield Sample("azure-account-key", "connection", text, halves(value))
        value = f"T{draw(rng, UPPER, 8)}/B{draw(rng, UPPER, 10)}/{draw(rng, ALNUM, 24)}"
        text = f"POST https://hooks.{'slack'}.com/services/{value}"
        yield Sample("slack-webhook", "address", text, halves(value))
        value = draw(rng, ALNUM, 68)
        text = f"https://{'discord'}.com/api/webhooks/{rng.randrange(10**17, 10**18)}/{value}"
        yield Sample("discord-webhook", "address", text, halves(value))
        value = base64.b64encode(f"mira:{draw(rng, ALNUM, 12)}".encode()).decode()
        yield Sample("token", "basic header", f"Authorization: Basic {value}", halves(value))


def secrets(rng: random.Random) -> list[Sample]:
    """Make the whole set: every kind in as many carriers as it is found in."""
    samples: list[Sample] = []
    turn = 0
    for kind in SHAPED:
        names = list(carriers(""))
        for carrier in names:
            value = shaped(rng, kind, turn)
            samples.append(Sample(kind, carrier, carriers(value)[carrier], halves(value)))
            turn += 1
    for carrier in carriers(""):
        for kind, value in compound(rng).items():
            samples.append(Sample(kind, carrier, carriers(value)[carrier], halves(value)))
    for rule in read_rules(RULES.read_text("utf-8")):
        if rule.kind not in SHAPED:
            samples += from_rule(rng, rule.kind, rule.example)
    for kind, name, value in named(rng):
        ways = assignments(name, value)
        for carrier in rng.sample(sorted(ways), k=6):
            samples.append(Sample(kind, carrier, ways[carrier], halves(value)))
    return [*samples, *blocks(rng), *addresses(rng)]


def from_rule(rng: random.Random, kind: str, example: str) -> Iterator[Sample]:
    """The example of a rule where it stands alone, in prose, in a listing, in JSON and in Markdown."""
    for carrier in ("bare", "prose", "after escape", "markdown", "json"):
        text, parts = filled(rng, example)
        # Half of a short part is six hex digits, and a database full of random ids holds those by chance.
        pieces = tuple(
            piece
            for part in parts
            if len(part) > 11
            for piece in (halves(part) if len(part) > 15 else (part,))
        )
        yield Sample(kind, carrier, carriers(text)[carrier], pieces)


def is_gone(sample: Sample) -> bool:
    redacted = redact(sample.text, find(sample.text)).replace("\u200b", "").replace("\u2060", "")
    return not any(piece in redacted for piece in sample.pieces)
