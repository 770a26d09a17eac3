/** Helpers for tests of programs that use this package. */
export { FakeLock, type FakeLockOptions } from "./fake-lock.js";
export { Server, type ServerOptions } from "./server.js";
