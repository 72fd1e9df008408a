const fs = require("node:fs");
const { page } = require("./page.js");

const rows = JSON.parse(fs.readFileSync("../api/data.json", "utf8")).items.map((item) => item.name);
fs.mkdirSync("out", { recursive: true });
fs.writeFileSync("out/index.html", page("Stock", rows));
console.log("out/index.html");
