function page(title, rows) {
  return `<h1>${title}</h1>\n<ul>\n${rows.map((row) => `  <li>${row}</li>`).join("\n")}\n</ul>\n`;
}

module.exports = { page };
