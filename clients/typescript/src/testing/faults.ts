/** Orders of a test to a server that was started with `--test-faults`. */
import { request } from "node:http";
import { text } from "node:stream/consumers";

/** How long a server may take to answer an order, in milliseconds. */
const TIMEOUT_MS = 10_000;

/** Sends an order to the port for faults. @throws Error with what the server says if it does not obey */
export async function order(faults: string, path: "/lose" | "/drop-reply", body = ""): Promise<void> {
  const reply = await post(`http://${faults}${path}`, body);
  if (reply.status !== 204) throw new Error(reply.text.trim());
}

function post(url: string, body: string): Promise<{ status: number | undefined; text: string }> {
  return new Promise((resolve, reject) => {
    // With an agent of its own the request goes to the port itself: a program may have set a web proxy for all others.
    const sent = request(url, { method: "POST", agent: false, timeout: TIMEOUT_MS }, (reply) => {
      text(reply).then((said) => {
        resolve({ status: reply.statusCode, text: said });
      }, reject);
    });
    sent.on("error", reject).on("timeout", () => {
      sent.destroy(new Error(`the server did not answer ${url} within ${String(TIMEOUT_MS / 1000)} s`));
    });
    sent.end(body);
  });
}
