// Runs the compiled examples, each in a process of its own, against a real server.
import { execFileSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { Server } from "@fencepost/client/testing";

const server = await Server.start();
for (const file of readdirSync("built/examples")) {
  const env = { ...process.env, FENCEPOST_SERVER: server.address };
  console.log(execFileSync(process.execPath, [`built/examples/${file}`], { env, encoding: "utf8", timeout: 60_000 }));
}
await server.stop();
