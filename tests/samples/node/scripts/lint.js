import { readdirSync, readFileSync } from "node:fs";

let problems = 0;
for (const name of readdirSync("src").sort()) {
  readFileSync(`src/${name}`, "utf8").split("\n").forEach((line, number) => {
    if (line.includes("TODO")) {
      problems += 1;
      console.log(`src/${name}:${number + 1}: unfinished: ${line.trim()}`);
    }
  });
}
console.log(`${problems} problem(s)`);
process.exitCode = problems ? 1 : 0;
