/** Helpers for tests of programs that use this package. */
export { Server, type ServerOptions } from "./server.js";
