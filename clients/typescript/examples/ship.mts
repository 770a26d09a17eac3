// Ships an order, once, however many workers run this. The server is that of FENCEPOST_SERVER, else 127.0.0.1:7420.
import { Client, LockLost, TimedOut } from "@fencepost/client";

await using client = new Client();
try {
  await client.using("orders/42", { ttl: 10_000, wait: 5000 }, async (lock, signal) => {
    for (const step of ["pick", "pack", "hand over"]) {
      await new Promise((resolve) => setTimeout(resolve, 10)); // the work; pass the signal to what it waits for
      signal.throwIfAborted();
      console.log(`${step}, with token ${lock.token}`); // the store refuses lower tokens
    }
  });
} catch (error) {
  if (error instanceof TimedOut) console.log(`another worker ships it: ${error.message}`);
  else if (error instanceof LockLost) console.log(`stopped: ${error.message}`);
  else throw error;
}
