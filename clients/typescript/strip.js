// Writes dist/ without TypeScript's compiler: strips the types, and writes no declarations.
//
// For tests on machines without the compiler; needs Node 22.13 or newer. `npm run build` creates what is published.

import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";

const here = new URL("./", import.meta.url);
mkdirSync(new URL("dist/", here), { recursive: true });
for (const name of readdirSync(new URL("src/", here))) {
  const program = stripTypeScriptTypes(readFileSync(new URL(`src/${name}`, here), "utf8"));
  const found = program.replace(/(from "\.\/[\w-]+)\.ts"/g, '$1.js"');
  writeFileSync(new URL(`dist/${name.replace(/\.ts$/, ".js")}`, here), found);
}
