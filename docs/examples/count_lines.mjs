// Count the lines of a file: a mediated tool in JavaScript, without any package. See ../protocol.md.
async function* linesOf(stream) { // not readline: it also cuts at U+2028, which JSON may hold
  let held = "";
  for await (const piece of stream.setEncoding("utf8")) {
    const parts = (held + piece).split("\n");
    held = parts.pop();
    yield* parts;
  }
}

const lines = linesOf(process.stdin);
const say = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
let last = 0;

async function hear() {
  const { value, done } = await lines.next();
  if (done) process.exit(1); // the host is gone
  const message = JSON.parse(value);
  if (message.method === "cancel") process.exit(0); // the user has changed their mind
  return message;
}

async function ask(method, params) {
  const id = ++last;
  say({ id, method, params });
  let message;
  do message = await hear(); while (message.id !== id); // until then: somebody is being asked
  if (message.error) throw new Error(message.error.message);
  return message.result;
}
const { tool } = (await hear()).params;
try {
  const { content, encoding } = await ask("fs.read", { path: tool.arguments.path });
  if (encoding) throw new Error("this is not a text");
  const count = content.split("\n").length - (content === "" || content.endsWith("\n") ? 1 : 0);
  say({ method: "result", params: { content: `${count} lines` } });
} catch (error) {
  say({ method: "error", params: { message: error.message, trace: [], transient: false } });
}
process.stdin.destroy();
