import assert from "node:assert/strict";
import { createRequire } from "node:module";
import * as imported from "@fencepost/client";
import { StaleToken } from "@fencepost/client/guards";

const required = createRequire(import.meta.url)("@fencepost/client");
assert.equal(imported.LockLost, required.LockLost, "one set of classes, however the package is loaded");
assert.equal(StaleToken, required.StaleToken);
