import { mkdirSync, readFileSync, writeFileSync } from "node:fs";

mkdirSync("dist", { recursive: true });
const text = ["cart", "index"].map((name) => readFileSync(`src/${name}.js`, "utf8")).join("\n");
writeFileSync("dist/bundle.js", text);
console.log(`dist/bundle.js: ${text.split("\n").length} lines`);
