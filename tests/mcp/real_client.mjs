// The official TypeScript SDK as a client: lists what a server offers, makes the calls it is given, prints all of it.
// node real_client.mjs DIRECTORY-OF-THE-SDK CALLS-JSON COMMAND ARGUMENTS...
import { pathToFileURL } from "node:url";

const [place, calls, command, ...args] = process.argv.slice(2);
const from = (name) => import(pathToFileURL(`${place}/node_modules/@modelcontextprotocol/sdk/dist/esm/client/${name}.js`));
const { Client } = await from("index");
const { StdioClientTransport } = await from("stdio");

const client = new Client({ name: "real-client", version: "1.0.0" }, { capabilities: {} });
await client.connect(new StdioClientTransport({ command, args, env: process.env, stderr: "inherit" }));
const found = { tools: (await client.listTools()).tools, answers: [] };
for (const [name, given] of JSON.parse(calls)) {
  found.answers.push(await client.callTool({ name, arguments: given }));
}
await client.close();
console.log(JSON.stringify(found));
