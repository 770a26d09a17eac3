/**
 * Completes target/clients/typescript/package, which is what is published: the compiled code is there already.
 *
 * There is one implementation, in CommonJS, and its names are exported again for `import`: a program that uses both
 * forms has one set of error classes.
 */
import { copyFileSync, cpSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = join(dirname(fileURLToPath(import.meta.url)), "..");
const root = join(here, "../..");
const target = join(root, "target/clients/typescript/package");
const require = createRequire(import.meta.url);

for (const file of ["package.json", "README.md", "CHANGELOG.md"]) copyFileSync(join(here, file), join(target, file));
for (const file of ["LICENSE-APACHE", "LICENSE-MIT"]) copyFileSync(join(root, file), join(target, file));
rmSync(join(target, "src"), { recursive: true, force: true });
cpSync(join(here, "src"), join(target, "src"), { recursive: true });

// The compiled code, which is loaded below, finds its dependencies here.
const modules = join(target, "../node_modules");
rmSync(modules, { force: true });
symlinkSync(join(here, "node_modules"), modules);

const { exports } = require(join(here, "package.json"));
for (const entry of Object.values(exports)) {
  if (typeof entry === "string") continue;
  const names = Object.keys(require(join(target, entry.require.default)));
  const file = `./${entry.require.default.split("/").at(-1)}`;
  writeFileSync(join(target, entry.import.default), `export { ${names.join(", ")} } from "${file}";\n`);
  writeFileSync(join(target, entry.import.types), `export * from "${file}";\n`);
}
