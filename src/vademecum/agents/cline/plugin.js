// Memory for Cline: runs `vade hook cline EVENT`. `vade uninstall cline` takes this file away.
import { spawn } from "node:child_process"
import { homedir } from "node:os"
import { join } from "node:path"

const WORDS = __WORDS__
const HOME = __HOME__
const DATA = process.env.CLINE_DATA_DIR || join(process.env.CLINE_DIR || join(homedir(), ".cline"), "data")
const SESSIONS = process.env.CLINE_SESSION_DATA_DIR || join(DATA, "sessions")
const WRAPPED = /^<user_input[^>]*>([\s\S]*)<\/user_input>$/
// Cline ends a run with an error when a plugin takes three seconds. An answer that comes later is for the next prompt.
const PATIENCE = 2000

// What a hook answers, or nothing: whatever goes wrong, Cline continues.
const ask = (event, given) =>
  new Promise((resolve) => {
    try {
      const child = spawn(WORDS[0], [...WORDS.slice(1), "hook", "cline", event, ...HOME], {
        stdio: ["pipe", "pipe", "ignore"],
        detached: true,
        windowsHide: true,
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

let session = ""
let folder = ""
let started = false
let late = [] // answers that no prompt has brought yet

const soon = (work) => {
  let timer
  const end = new Promise((resolve) => (timer = setTimeout(resolve, PATIENCE)))
  return Promise.race([work, end]).finally(() => clearTimeout(timer))
}

const about = (more) => ({ session_id: session, cwd: folder, ...more })
const isPrompt = (message) =>
  message.role === "user" &&
  message.metadata?.displayRole !== "system" &&
  message.content.some((part) => part.type === "text")
const textOf = (message) => {
  const text = message.content.filter((part) => part.type === "text").map((part) => part.text).join("\n").trim()
  return WRAPPED.exec(text)?.[1] ?? text
}

export default {
  name: "vade",
  manifest: { capabilities: ["hooks"] },
  setup(api, context) {
    session = context?.session?.sessionId || ""
    folder = context?.workspaceInfo?.rootPath || ""
  },
  hooks: {
    async beforeRun({ snapshot }) {
      if (snapshot.parentAgentId) return
      const prompts = snapshot.messages.filter(isPrompt)
      const begin = async () => {
        if (!started) {
          started = true
          const source = prompts.length > 1 ? "resume" : "startup"
          const block = await ask("session-start", about({ source }))
          late.push(block)
        }
        const records = prompts.length ? await ask("user-prompt", about({ prompt: textOf(prompts.at(-1)) })) : ""
        late.push(records) // `late` may be another list than it was before the hook was asked
      }
      await soon(begin())
      const told = late.filter(Boolean).join("\n\n")
      late = []
      return told ? { appendContext: told } : undefined
    },
    async afterRun({ snapshot }) {
      if (snapshot.parentAgentId || !session) return
      await soon(ask("stop", about({ transcript_path: join(SESSIONS, session, `${session}.messages.json`) })))
    },
  },
}
