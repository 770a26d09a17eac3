/** Server addresses as people write them. */
import { isIP, isIPv4, isIPv6 } from "node:net";
import { mistake } from "./arguments.js";
import { DEFAULT_PORT, DEFAULT_SERVER, ENVIRONMENT_SERVER } from "./facts.js";

/** Where a server listens. */
export type Address =
  | { kind: "tcp"; host: string; port: number; tls: boolean; text: string }
  | { kind: "unix"; path: string; tls: false; text: string };

/**
 * The addresses of a client: those given, else those of the environment, else the default server.
 *
 * @throws TypeError if one is not an address.
 */
export function addresses(servers: string | readonly string[] | undefined): Address[] {
  if (servers !== undefined && !isTexts(servers)) {
    throw mistake("servers", "a string or a list of strings", servers, "");
  }
  const given = servers ?? process.env[ENVIRONMENT_SERVER] ?? "";
  const texts = (typeof given === "string" ? given.split(",") : given.flatMap((text) => text.split(",")))
    .map((text) => text.trim())
    .filter((text) => text !== "");
  return (texts.length === 0 ? [DEFAULT_SERVER] : texts).map(parse);
}

function isTexts(servers: unknown): boolean {
  return [servers].flat().every((text) => typeof text === "string");
}

/** Parses `host:port`, `host`, `http(s)://host:port`, `unix:/path` or `unix:///path`. */
export function parse(text: string): Address {
  const address = read(text.trim());
  if (typeof address !== "string") return address;
  // What stands in front of @ may be a password.
  const shown = text.includes("@") ? `***${text.slice(text.lastIndexOf("@"))}` : text;
  throw new TypeError(`invalid server address ${JSON.stringify(shown)}: ${address}`);
}

/** Whether traffic to this address stays on this machine. */
export function isLocal(address: Address): boolean {
  if (address.kind === "unix") return true;
  const { host } = address;
  return host === "localhost" || host === "::1" || (isIPv4(host) && host.startsWith("127."));
}

/**
 * The origin of requests to this address; gRPC names a Unix socket `localhost`. So does this an IPv6 address: Node's
 * http2 module takes its brackets away, and servers refuse the rest.
 */
export function origin(address: Address): string {
  if (address.kind === "unix") return "http://localhost";
  const host = isIPv6(address.host) ? "localhost" : address.host;
  return `${address.tls ? "https" : "http"}://${host}:${String(address.port)}`;
}

/** An address, or the rule that the text breaks. */
function read(text: string): Address | string {
  const unix = /^unix:(?:\/\/)?(?=\/|$|[^/])(.*)$/i.exec(text);
  if (unix) return readUnix(unix[1] ?? "");
  const [, scheme = "", rest = ""] = /^(?:([^:/]*):\/\/)?(.*?)\/?$/.exec(text) ?? [];
  if (!["", "http", "https"].includes(scheme.toLowerCase())) {
    return "the scheme must be http://, https:// or unix:; write host:port, or https://host:port for TLS";
  }
  if (rest === "") return "it is empty; write host:port, such as 127.0.0.1:7420";
  if (rest.includes("@")) return "a user or a password in front of @ is not supported; write host:port";
  if (/[/?#]/.test(rest)) return "nothing may follow host:port, and this has a path";
  return readHost(rest, scheme.toLowerCase() === "https");
}

function readUnix(path: string): Address | string {
  if (!path.startsWith("/") || path.endsWith("/") || path.includes("\0")) {
    return "a Unix socket needs an absolute path, such as unix:/run/fencepost.sock";
  }
  return { kind: "unix", path, tls: false, text: `unix:${path}` };
}

function readHost(rest: string, tls: boolean): Address | string {
  const brackets = "an IPv6 address needs brackets, such as [::1]:7420";
  const [, inside, named = "", digits] = /^(?:\[([^\]]*)\]|([^:[\]]*))(?::(.*))?$/.exec(rest) ?? [];
  if (inside === undefined && named === "") {
    return rest.startsWith(":") && !rest.slice(1).includes(":")
      ? "the host is missing; write host:port, such as localhost:7420"
      : brackets;
  }
  if (inside !== undefined && !isIPv6(inside)) return brackets;
  if (inside === undefined && (!/^[\w.-]+$/.test(named) || (/^[\d.]+$/.test(named) && isIP(named) === 0))) {
    return "the host must be an IP address, or a name of letters, digits, hyphens, underscores and dots";
  }
  const port = digits === undefined ? DEFAULT_PORT : Number(digits);
  if (digits !== undefined && (!/^\d+$/.test(digits) || port < 1 || port > 65_535)) {
    return "the port must be a number from 1 to 65535";
  }
  const host = inside ?? named;
  const text = `${tls ? "https://" : ""}${bracketed(host)}:${String(port)}`;
  return { kind: "tcp", host, port, tls, text };
}

function bracketed(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}
