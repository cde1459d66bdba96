#!/usr/bin/env bash
# The protocol's own test suite, both requirement sets: over our transport with tools of the suite, and over the real
# `vade mcp --http` through a proxy that adds its token; and the Inspector over every tool.
# Needs npm; Node 22 and the two packages are fetched by name into VADE_NODE (default .venv/node) once.
set -euo pipefail
cd "$(dirname "$0")/.."
modules="${VADE_NODE:-$PWD/.venv/node}"
vade="$PWD/.venv/bin/vade"
scratch="$(mktemp -d)"
server=""
finish() {
  if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; fi
  rm -rf "$scratch"
}
trap finish EXIT

export PATH="$modules/node_modules/.bin:$PATH"
major() { node --version 2>/dev/null | sed 's/^v//; s/[.].*//'; }
if [ ! -e "$modules/ready" ]; then
  mkdir -p "$modules"
  echo '{"private": true}' > "$modules/package.json"
  fetch() { npm install --prefix "$modules" --no-audit --no-fund --silent "$@"; }
  # Node first where this machine's is too old, so that what needs Node 22 is installed by it.
  [ "$(major || echo 0)" -ge 22 ] 2>/dev/null || fetch node@22.23.3
  fetch @modelcontextprotocol/conformance@0.2.0-alpha.12 @modelcontextprotocol/inspector@2.12.0
  touch "$modules/ready"
fi
[ "$(major)" -ge 22 ] || { echo "Node 22 is needed, this is $(node --version)" >&2; exit 1; }

"$PWD/.venv/bin/python" tests/mcp_door/conformance_fixture.py > "$scratch/address" 2> "$scratch/log" &
server=$!
for _ in $(seq 300); do grep -q http "$scratch/address" && break; sleep 0.1; done
address="$(grep http "$scratch/address")" || { cat "$scratch/log" >&2; exit 1; }
for revision in 2025-11-25 2026-07-28; do
  echo "== conformance $revision"
  conformance server --url "$address" --requirements "$revision" --output-dir "$scratch/results" \
    > "$scratch/$revision" 2>&1 || { cat "$scratch/$revision"; exit 1; }
  sed -n '/=== SUMMARY/,$p' "$scratch/$revision"
done

kill "$server"; wait "$server" 2>/dev/null || true
"$PWD/.venv/bin/python" tests/mcp_door/conformance_proxy.py "$vade" "$scratch/served" > "$scratch/proxy" 2> "$scratch/log" &
server=$!
for _ in $(seq 300); do grep -q http "$scratch/proxy" && break; sleep 0.1; done
address="$(grep http "$scratch/proxy")" || { cat "$scratch/log" >&2; exit 1; }
for revision in 2025-11-25 2026-07-28; do
  echo "== conformance $revision, the real server"
  conformance server --url "$address" --requirements "$revision" --output-dir "$scratch/real-$revision" \
    > "$scratch/real" 2>&1 || true  # what it cannot be asked counts as failed there
  "$PWD/.venv/bin/python" tests/mcp_door/conformance_count.py "$scratch/real-$revision" || { cat "$scratch/real"; exit 1; }
done

echo "== inspector"
inspect() { # METHOD [OPTION…]: one call through the Inspector, with a catalog of our own
  MCP_CATALOG_PATH="$scratch/catalog.json" mcp-inspector --cli "$vade" mcp --tools all --home "$scratch/home" \
    --session inspector --method "$@"
}
cd "$scratch"
inspect tools/list > tools.json
calls() {
  cat <<'CALLS'
memory_store content=The_answer_is_42 key=answer
memory_recall query=answer
memory_search query=answer
memory_get key=answer
memory_note content=Asked_and_answered
session_search query=answer
todo operation=write items=["one","two"]
session_get session=inspector place=1
save_memory content=User_prefers_tea
recall_memory query=tea
list_memories
memory_operations operation=ltm_stats
memory_forget key=answer
CALLS
}
while read -r name arguments; do
  options=()
  for each in $arguments; do options+=(--tool-arg "$each"); done
  inspect tools/call --tool-name "$name" "${options[@]}" < /dev/null > answer.json
  grep -q '"structuredContent"' answer.json || { echo "$name: no answer"; cat answer.json; exit 1; }
  if grep -q '"isError": *true' answer.json; then echo "$name: an error"; cat answer.json; exit 1; fi
  grep -q "\"$name\"" tools.json || { echo "$name is not listed"; exit 1; }
  echo "✓ $name"
done < <(calls)
listed="$(grep -o '"name": *"[a-z_]*"' tools.json | sort -u | wc -l)"
called="$(calls | wc -l)"
[ "$listed" -eq "$called" ] || { echo "$listed tools are listed, $called were called"; exit 1; }
inspect resources/read --uri vade://status > /dev/null
inspect prompts/get --prompt-name recall --prompt-args topic=tea > /dev/null
echo "✓ resources and prompts"
