// Asks byleave before every tool call. Written by `byleave hook --install opencode`; `byleave hook --uninstall opencode` removes it.
// A call goes on only if byleave answers, in time, that it is allowed. What came of it is reported, and nothing waits for that.
import { spawn } from "node:child_process"

const COMMAND = @COMMAND@
const PATIENCE = @PATIENCE@ // milliseconds

function ask(event, directory) {
  return new Promise((resolve, reject) => {
    const hook = spawn(COMMAND[0], COMMAND.slice(1), { cwd: directory, stdio: ["pipe", "pipe", "pipe"] })
    const out = []
    const err = []
    const late = setTimeout(() => hook.kill("SIGKILL"), PATIENCE)
    hook.stdout.on("data", (data) => out.push(data))
    hook.stderr.on("data", (data) => err.push(data))
    hook.stdin.on("error", () => {})
    hook.on("error", (error) => {
      clearTimeout(late)
      reject(new Error("byleave: the call is blocked, the hook cannot start: " + error.message))
    })
    hook.on("close", (code) => {
      clearTimeout(late)
      if (code === 0) resolve(Buffer.concat(out).toString())
      else reject(new Error(Buffer.concat(err).toString().trim() || "byleave: the call is blocked, its hook did not answer"))
    })
    hook.stdin.end(JSON.stringify(event))
  })
}

function report(event, directory) {
  try {
    const words = [...COMMAND.slice(1), "--only", "outcome"]
    const hook = spawn(COMMAND[0], words, { cwd: directory, stdio: ["pipe", "ignore", "ignore"], detached: true })
    hook.on("error", () => {})
    hook.stdin.on("error", () => {})
    hook.stdin.end(JSON.stringify(event))
    hook.unref()
  } catch {}
}

async function servers(client) {
  try {
    return Object.keys((await client.mcp.status()).data ?? {})
  } catch {
    return []
  }
}

export const Byleave = async ({ client, directory }) => ({
  "tool.execute.before": async (input, output) => {
    const event = {
      hook_event_name: "tool.execute.before",
      tool: input.tool,
      call_id: input.callID,
      session_id: input.sessionID,
      args: output.args ?? {},
      directory,
      servers: await servers(client),
    }
    const answer = JSON.parse(await ask(event, directory))
    if (answer.decision !== "allow") throw new Error(answer.reason || "byleave: the call is blocked")
    if (answer.args) Object.assign(output.args, answer.args) // the command, so that it runs confined
  },
  "tool.execute.after": async (input, output) => {
    const { tool, callID: call_id, sessionID: session_id, args = {} } = input
    const event = { hook_event_name: "tool.execute.after", tool, call_id, session_id, args, exit: output?.metadata?.exit, directory }
    report(event, directory)
  },
  event: async ({ event }) => {
    const session_id = event?.properties?.info?.id
    if (event?.type === "session.deleted") report({ hook_event_name: "session.deleted", session_id, directory }, directory)
  },
})
