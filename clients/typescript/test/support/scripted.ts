/** A server whose side of each session is played by the test. */
import { once } from "node:events";
import * as http2 from "node:http2";
import type { AddressInfo, Socket } from "node:net";
import type { TestContext } from "node:test";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import type { ServiceImpl } from "@connectrpc/connect";
import { anyPack } from "@bufbuild/protobuf/wkt";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { ERROR_DOMAIN } from "../../src/facts.js";
import {
  AcquireResponse_Outcome as Outcome,
  LeaseEnd,
  LockService,
  type SessionRequest,
  type SessionResponseSchema,
} from "../../src/gen/fencepost/v1/lock_pb.js";
import { ErrorInfoSchema, RetryInfoSchema } from "../../src/gen/google/rpc/error_details_pb.js";
import { duration } from "../../src/wire.js";
import { after } from "./index.js";

export type Response = MessageInitShape<typeof SessionResponseSchema>;
type Message<Case> = Extract<SessionRequest["message"], { case: Case }>["value"];

/** What the test answers to one message of the client; `end` ends the stream. */
export type Answer = (Response | "end")[];

export type Calls = Partial<Omit<ServiceImpl<typeof LockService>, "session">>;

/** Answers what the client sends. Releases are done by default, and what has no answer here is not answered. */
export interface Script {
  acquire(message: Message<"acquire">): Answer;
  /** Called when a session opens. It may throw the error that refuses it. */
  opens?(): void;
  renew?(message: Message<"renew">): Answer;
  attach?(message: Message<"attach">): Answer;
  release?(message: Message<"release">): Answer;
  /** What is called outside of a session. */
  readonly calls?: Calls;
  /** Told of the lease id. */
  released?(leaseId: string): void;
}

/** Starts a server that plays the script, on all of its sessions. Returns its address. */
export async function scripted(t: TestContext, script: Script): Promise<string> {
  const answer = (message: SessionRequest["message"]): Answer => {
    switch (message.case) {
      case "acquire":
        return script.acquire(message.value);
      case "renew":
        return script.renew?.(message.value) ?? [];
      case "attach":
        return script.attach?.(message.value) ?? [];
      case "release":
        script.released?.(message.value.leaseId);
        if (script.release) return script.release(message.value);
        return [{ message: { case: "release", value: { end: LeaseEnd.RELEASED } } }];
      default:
        return [];
    }
  };
  const routes = connectNodeAdapter({
    routes: (router) =>
      router.service(LockService, {
        ...script.calls,
        async *session(requests) {
          script.opens?.();
          for await (const { operation, message } of requests) {
            for (const [n, each] of answer(message).entries()) {
              if (each === "end") return;
              yield n === 0 ? { operation, ...each } : each;
            }
          }
        },
      }),
  });
  const sockets = new Set<Socket>();
  const server = http2.createServer(routes).on("connection", (socket: Socket) => sockets.add(socket));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  after(t, async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
    await once(server, "close");
  });
  return `127.0.0.1:${String((server.address() as AddressInfo).port)}`;
}

/** A grant with this token, of which so much is left. */
export function granted(lockName: string, token: number, left: number): Response {
  const lease = {
    ...{ lockName, fencingToken: BigInt(token), ttl: duration(left) },
    ...{ leaseId: `lease ${String(token)}`, grantId: `grant ${String(token)}` },
  };
  return { message: { case: "acquire", value: { outcome: Outcome.ACQUIRED, lease } } };
}

/** The error of an operation, which may be repeated after so many milliseconds. */
export function failed(code: number, reason: string, delay = 0): Response {
  const details = [
    anyPack(ErrorInfoSchema, create(ErrorInfoSchema, { domain: ERROR_DOMAIN, reason })),
    anyPack(RetryInfoSchema, create(RetryInfoSchema, { retryDelay: duration(delay) })),
  ];
  return { message: { case: "error", value: { code, message: "as the test asked for", details } } };
}
