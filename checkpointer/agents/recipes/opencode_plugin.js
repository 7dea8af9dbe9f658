// Put here by `ckpt install opencode`; `ckpt uninstall opencode` takes it away.
// Passes what happens in a session on to ckpt, as JSON on its stdin, and shows what ckpt answers. Where ckpt is
// missing or fails, the session goes on as if this file were not there.
import { spawn } from "node:child_process"

const CKPT = __CKPT__
const EVENTS = new Set(__EVENTS__)
const LIMIT = 60000

// Resolves to the object that ckpt printed, or to {}.
const tell = (name, directory, facts) =>
  new Promise((resolve) => {
    if (!EVENTS.has(name)) return resolve({})
    let printed = ""
    const child = spawn(CKPT[0], [...CKPT.slice(1), name], { cwd: directory, stdio: ["pipe", "pipe", "ignore"] })
    const timer = setTimeout(() => child.kill(), LIMIT)
    const done = () => {
      clearTimeout(timer)
      try {
        resolve(JSON.parse(printed) ?? {})
      } catch {
        resolve({})
      }
    }
    child.on("error", done)
    child.on("close", done)
    child.stdout.setEncoding("utf8")
    child.stdout.on("data", (text) => (printed += text))
    child.stdin.on("error", () => {})
    child.stdin.end(JSON.stringify({ hook_event_name: name, cwd: directory, ...facts }))
  })

export const Ckpt = async ({ directory, client }) => {
  const show = async (message, variant = "warning") => {
    if (!message) return
    try {
      await client.tui.showToast({ body: { title: "ckpt", message, variant, duration: 15000 } })
    } catch {}
  }
  // An answer of ckpt to what a person typed: shown, and nothing goes to the model. Only an error stops the prompt.
  const answered = async (answer) => {
    if (answer.decision !== "block" && answer.decision !== "deny") return
    const reason = answer.reason || "answered by ckpt"
    await show(reason, "info")
    throw new Error(reason)
  }
  const context = (answer) => answer.additionalContext ?? answer.hookSpecificOutput?.additionalContext

  return {
    event: async ({ event }) => {
      const answer = await tell("event:" + event.type, directory, { properties: event.properties })
      await show(answer.systemMessage)
    },
    "chat.message": async (input, output) => {
      const text = output.parts.filter((part) => part.type === "text").map((part) => part.text)
      const answer = await tell("chat.message", directory, { input, text })
      await show(answer.systemMessage)
      await answered(answer)
      const said = context(answer)
      const last = output.parts.findLast((part) => part.type === "text")
      if (said && last) last.text += "\n\n" + said
    },
    "command.execute.before": async (input) => {
      await answered(await tell("command.execute.before", directory, { input, answers: true }))
    },
    "tool.execute.before": async (input, output) => {
      await tell("tool.execute.before", directory, { input, args: output.args })
    },
    "tool.execute.after": async (input, output) => {
      const { title, output: text, metadata } = output
      await tell("tool.execute.after", directory, { input, args: input.args, output: { title, output: text, metadata } })
    },
  }
}
