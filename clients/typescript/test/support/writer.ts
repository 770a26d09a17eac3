/**
 * A holder in a process of its own: acquires the lock, prints its token, and writes when a line arrives, without a look
 * at the clock. It stands for a holder that is stopped between its last check and its write.
 */
import { once } from "node:events";
import { createInterface } from "node:readline";
import { Client } from "../../src/index.js";
import { type Addresses, DRIVERS } from "./stores.js";

async function main(server: string, stores: string, driver: string, name: string, guarded: boolean): Promise<void> {
  const store = await DRIVERS[driver]?.(JSON.parse(stores) as Addresses);
  if (store === undefined) throw new Error(`no driver ${driver}`);
  const client = new Client({ servers: server });
  const lock = await client.lock(name, { ttl: 3000 });
  const input = createInterface({ input: process.stdin });
  const go = once(input, "line");
  console.log(lock.token);
  await go;
  try {
    await store.write(lock, "late", guarded);
    console.log("written");
  } catch (error) {
    console.log(String(error));
  }
  input.close();
  await store.close();
  await client.close();
}

const [server = "", stores = "", driver = "", name = "", guarded] = process.argv.slice(2);
void main(server, stores, driver, name, guarded === "guarded");
