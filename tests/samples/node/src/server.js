import http from "node:http";
import { total } from "./cart.js";

const port = Number(process.env.PORT ?? 3000);

export const server = http.createServer((request, response) => {
  if (request.url === "/health") {
    response.end("ok\n");
    return;
  }
  response.setHeader("content-type", "application/json");
  response.end(JSON.stringify({ total: total([{ price: 250, quantity: 2 }]) }) + "\n");
});

if (import.meta.url === `file://${process.argv[1]}`) {
  server.listen(port, "127.0.0.1", () => console.log(`listening on ${port}`));
}
