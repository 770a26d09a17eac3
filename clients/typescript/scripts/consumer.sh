#!/usr/bin/env bash
# Packs the package, installs the tarball in a clean folder, imports it in both forms, compiles programs with it, and
# runs the examples and the code of the README.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
target=$here/../../target/clients/typescript
rm -rf "$target/packed" "$target/consumer"
mkdir -p "$target/packed" "$target/consumer"
npm pack --silent --pack-destination "$target/packed" "$target/package" >/dev/null
tarball=$(ls "$target"/packed/*.tgz)
cd "$here"
npx publint run "$tarball" --strict
npx attw "$tarball" --profile node16 --format ascii
cp -r "$here"/test/package/* "$here/examples" "$target/consumer"
cd "$target/consumer"
npm install --silent --no-audit --no-fund --install-links "$tarball"
node imported.mjs
node required.cjs
node both.mjs
node readme.mjs generate
"$here/node_modules/.bin/tsc" -p . --typeRoots "$here/node_modules/@types"
node examples.mjs
node readme.mjs run
