import { Client, type LogFields, type Logger, Refused, Unavailable, VERSION } from "@fencepost/client";

const log = (text: string, { lock, token, cause }: LogFields) => { console.log(VERSION, text, lock, token, cause); };
const logger: Logger = { debug: log, info: log, warn: log, error: log };
const client = new Client({ logger });
const silent: Client[] = [new Client({ logger: null }), new Client({ logger: console })];
client.get("a").catch((error: unknown) => {
  if (error instanceof Unavailable) console.log(error.reason ?? silent.length);
  if (error instanceof Refused) console.log(error.code, error.violations[0]?.field);
});
