// Memory for Amp: runs `vade hook amp EVENT`. `vade uninstall amp` removes this file.
import { spawn } from "node:child_process"
import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { homedir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

export const description = "Long-term memory: adds what is known to a prompt, and keeps a searchable copy of threads"

const WORDS = __WORDS__
const HOME = __HOME__
const DATA = join(process.env.XDG_DATA_HOME || join(homedir(), ".local", "share"), "amp", "vade")
const MOST = 20 // messages that Amp returns at once

// The answer of a hook, or nothing: whatever goes wrong, Amp continues.
const ask = (event, given) =>
  new Promise((resolve) => {
    try {
      const child = spawn(WORDS[0], [...WORDS.slice(1), "hook", "amp", event, ...HOME], {
        stdio: ["pipe", "pipe", "ignore"],
        timeout: __MILLISECONDS__,
      })
      let answer = ""
      child.stdout.on("data", (chunk) => (answer += chunk))
      child.on("error", () => resolve(""))
      child.on("close", () => resolve(answer))
      child.stdin.on("error", () => {})
      child.stdin.end(JSON.stringify(given))
    } catch {
      resolve("")
    }
  })

export default function (amp) {
  const started = new Set() // threads that got the block of a session's start from this process
  const root = amp.system?.workspaceRoot
  const cwd = root ? fileURLToPath(root.toString()) : process.cwd()

  amp.on("agent.start", async (event) => {
    const about = { session_id: event.thread.id, cwd }
    const answers = []
    if (!started.has(event.thread.id)) {
      started.add(event.thread.id)
      // Amp saves the text in the thread, so a thread that goes on needs only what is new.
      answers.push(await ask("session-start", { ...about, source: "resume" }))
    }
    answers.push(await ask("user-prompt", { ...about, prompt: event.message }))
    const content = answers.filter(Boolean).join("\n\n")
    return content ? { message: { content } } : {}
  })

  amp.on("agent.end", async (event, ctx) => {
    try {
      if (await ctx.thread.parentThreadID().catch(() => null)) return
      const path = join(DATA, `${event.thread.id}.json`)
      const times = timesIn(path)
      const messages = []
      for (let offset = 0; ; offset += MOST) {
        const page = await ctx.thread.messages({ full: true, from: "start", offset, limit: MOST })
        messages.push(...page.map((each) => ({ ...each, time: times.get(each.id) || new Date().toISOString() })))
        if (page.length < MOST) break
      }
      const title = await ctx.thread.title.get().catch(() => null)
      mkdirSync(DATA, { recursive: true, mode: 0o700 })
      writeFileSync(path, JSON.stringify({ amp: 1, thread: { id: event.thread.id, cwd, title }, messages }), {
        mode: 0o600,
      })
      await ask("stop", { session_id: event.thread.id, cwd, transcript_path: path })
    } catch {}
  })
}

// When each message was first seen; Amp itself gives no times.
const timesIn = (path) => {
  try {
    return new Map(JSON.parse(readFileSync(path, "utf8")).messages.map((each) => [each.id, each.time]))
  } catch {
    return new Map()
  }
}
