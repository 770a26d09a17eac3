import { Client, Refused } from "@fencepost/client";

const client = new Client();
client.get("a").catch((error: unknown) => {
  if (error instanceof Refused) console.log(error.code, error.violations[0]?.field);
});
