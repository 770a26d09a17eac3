/** Helpers for tests of programs that use this package. */
export { FakeServer } from "./fake.js";
export { Server, type ServerOptions } from "./server.js";
