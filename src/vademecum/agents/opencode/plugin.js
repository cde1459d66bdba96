// Memory for opencode: runs `vade hook opencode EVENT`. `vade uninstall opencode` takes this file away.
import { spawn } from "node:child_process"
import { mkdirSync, writeFileSync } from "node:fs"
import { homedir } from "node:os"
import { join } from "node:path"

const WORDS = __WORDS__
const HOME = __HOME__
const DATA = join(process.env.XDG_DATA_HOME || join(homedir(), ".local", "share"), "opencode", "vade")

// What a hook answers, or nothing: whatever goes wrong, opencode continues.
const ask = (event, given) =>
  new Promise((resolve) => {
    try {
      const child = spawn(WORDS[0], [...WORDS.slice(1), "hook", "opencode", event, ...HOME], {
        stdio: ["pipe", "pipe", "ignore"],
        timeout: __MILLISECONDS__,
      })
      let told = ""
      child.stdout.on("data", (chunk) => (told += chunk))
      child.on("error", () => resolve(""))
      child.on("close", () => resolve(told))
      child.stdin.on("error", () => {})
      child.stdin.end(JSON.stringify(given))
    } catch {
      resolve("")
    }
  })

export const Vade = async ({ client, directory }) => {
  const told = new Map() // what each session was told, oldest first
  const subagents = new Map() // for each session its id if it is a subagent's, else an empty text
  const compacted = new Set() // sessions whose window was emptied in this process
  const about = (id, more = {}) => ({ session_id: id, cwd: directory, ...more })

  // The session as `opencode export` writes it, where the hook may read it.
  const keep = async (event, id) => {
    try {
      const info = (await client.session.get({ path: { id } })).data
      const messages = (await client.session.messages({ path: { id } })).data
      if (!info || !messages || info.parentID) return
      mkdirSync(DATA, { recursive: true, mode: 0o700 })
      const path = join(DATA, `${id}.json`)
      writeFileSync(path, JSON.stringify({ info, messages }), { mode: 0o600 })
      await ask(event, about(id, { transcript_path: path }))
    } catch {}
  }

  return {
    "chat.message": async ({ sessionID }, { parts }) => {
      const prompt = parts.filter((part) => part.type === "text" && !part.synthetic).map((part) => part.text)
      if (!told.has(sessionID)) {
        // A session that memory knows is continued: its earlier blocks are made again, unless it was compacted.
        const source = compacted.delete(sessionID) ? "compact" : "resume"
        told.set(sessionID, [await ask("session-start", about(sessionID, { source }))])
      }
      if (!subagents.has(sessionID)) {
        const info = (await client.session.get({ path: { id: sessionID } }).catch(() => null))?.data
        subagents.set(sessionID, info?.parentID ? sessionID : "")
      }
      const given = { prompt: prompt.join("\n"), agent_id: subagents.get(sessionID) }
      const more = await ask("user-prompt", about(sessionID, given))
      if (more) told.get(sessionID).push(more)
    },
    "experimental.chat.system.transform": async ({ sessionID }, { system }) => {
      system.push(...(told.get(sessionID) || []).filter(Boolean))
    },
    "experimental.session.compacting": async ({ sessionID }) => {
      told.delete(sessionID)
      compacted.add(sessionID)
      await keep("pre-compact", sessionID)
    },
    event: async ({ event }) => {
      if (event.type === "session.idle") await keep("stop", event.properties.sessionID)
    },
  }
}
