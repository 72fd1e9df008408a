const assert = require("node:assert/strict");
const test = require("node:test");
const { page } = require("../src/page.js");

test("a page lists its rows", () => {
  assert.match(page("Stock", ["tea"]), /<li>tea<\/li>/);
});
