/** The file of a bearer token. Others may replace it at any time, so it is looked at before each call and each stream. */
import { readFileSync, statSync } from "node:fs";
import { checkText } from "./arguments.js";
import { ENVIRONMENT_CREDENTIALS } from "./facts.js";
import { setting, type TokenSource } from "./security.js";

/** The most bytes of such a file. A server takes no longer token. */
const BYTES_MAX = 16 * 1024;

/**
 * Where the tokens of a client come from: its options, else the file that the environment names.
 *
 * @throws TypeError if the options name two sources
 */
export function tokenSource(token?: TokenSource, credentials?: string): TokenSource | undefined {
  if (credentials !== undefined) {
    checkText("credentials", credentials);
    if (token !== undefined) throw new TypeError("give either token or credentials, not both");
    return inFile(credentials, "credentials");
  }
  if (token !== undefined) return token;
  const file = setting(ENVIRONMENT_CREDENTIALS);
  return file === undefined ? undefined : inFile(file, ENVIRONMENT_CREDENTIALS);
}

/** The token in a file, which is read again when the file has changed. */
function inFile(file: string, namedBy: string): () => string {
  let known: { readonly version: string; readonly text: string } | undefined;
  return () => {
    try {
      const { ino, mtimeNs, size } = statSync(file, { bigint: true });
      if (size > BYTES_MAX) throw new Error(`it has ${String(size)} bytes, the maximum is ${String(BYTES_MAX)}`);
      const version = [ino, mtimeNs, size].join();
      if (known?.version !== version) known = { version, text: readFileSync(file, "utf8").trim() };
      if (known.text === "") throw new Error("it is empty");
      return known.text;
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      throw new Error(`${namedBy} names ${file}: ${why}`, { cause: error });
    }
  };
}
