// Asks byleave before every tool call. Written by `byleave hook --install opencode`; `byleave hook --uninstall opencode` removes it.
// A call goes on only if byleave answers, in time, that it is allowed.
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
      args: output.args ?? {},
      directory,
      servers: await servers(client),
    }
    const answer = JSON.parse(await ask(event, directory))
    if (answer.decision !== "allow") throw new Error(answer.reason || "byleave: the call is blocked")
  },
})
