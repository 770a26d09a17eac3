/** Why a connection fails, in the words of all clients. */
import { getSystemErrorMap } from "node:util";
import {
  TLS_CLIENT_CERTIFICATE_MISSING,
  TLS_CLIENT_CERTIFICATE_REFUSED,
  TLS_EXPIRED,
  TLS_NOT_TLS,
  TLS_UNTRUSTED,
  TLS_WRONG_NAME,
} from "./facts.js";

export interface Trouble {
  readonly text: string;
  /** Whether that stays until somebody changes an address or certificates, on either side. */
  readonly isLasting: boolean;
  /** Whether the text goes on with the sentence that the server's address begins. */
  readonly isPredicate?: boolean;
}

/** The codes of Node for certificates of servers that are not accepted. */
const CERTIFICATE = /^(?:(?:UNABLE_TO|CERT|DEPTH_ZERO|SELF_SIGNED|PATH_LENGTH|ERR_TLS_CERT)_|INVALID_(?:CA|PURPOSE)$)/;

/** Those of certificates that no trusted authority has issued. A bad signature: another one of the same name has. */
const UNTRUSTED = /^(?:UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|CERT_(?:SIGNATURE_FAILURE|UNTRUSTED)$)/;

/** The codes of Node for alerts with which a server refuses a handshake. */
const ALERT = /_ALERT_([A-Z_]+)$/;

/** Those for what it was shown: the certificate of the client. */
const OF_CERTIFICATE =
  /^(?:CERTIFICATE_[A-Z]+|(?:BAD|UNSUPPORTED)_CERTIFICATE|UNKNOWN_CA|ACCESS_DENIED|DECRYPT_ERROR|HANDSHAKE_FAILURE)$/;

/** Those for what it was offered. */
const OF_PROTOCOL = /^(?:PROTOCOL_VERSION|INSUFFICIENT_SECURITY|NO_APPLICATION_PROTOCOL)$/;

/** The codes of Node for an answer that is not one of TLS. */
const NOT_TLS = /^ERR_SSL_(?:WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG|HTTP_REQUEST|UNEXPECTED_MESSAGE)$/;

/**
 * The innermost cause says what happened; the outer ones name what was called. `hasCertificate` is whether the client
 * has one of its own.
 */
export function troubleOf(error: unknown, hasCertificate = true): Trouble {
  let inner = error;
  while (inner instanceof Error && inner.cause instanceof Error) inner = inner.cause;
  if (inner instanceof AggregateError && inner.errors.length > 0) return troubleOf(inner.errors[0], hasCertificate);
  if (!(inner instanceof Error)) return { text: "the connection failed", isLasting: false };
  const { code, errno, reason } = inner as Error & Record<string, unknown>;
  const known = typeof code === "string" ? code : "";
  if (CERTIFICATE.test(known)) return { text: certificate(known, inner), isLasting: true };
  const [, alert] = ALERT.exec(known) ?? [];
  const refused = alert === undefined ? undefined : refusal(alert, hasCertificate);
  if (refused !== undefined) return { text: refused, isLasting: true };
  if (NOT_TLS.test(known)) return { text: TLS_NOT_TLS, isLasting: true };
  if (typeof reason === "string" && reason !== "") {
    return { text: `the TLS handshake failed: ${reason}`, isLasting: false };
  }
  if (known === "ENOTFOUND") return { text: "the host name is not known (ENOTFOUND)", isLasting: false };
  const [, system] = getSystemErrorMap().get(Number(errno)) ?? [];
  return { text: system ?? readable(inner, known), isLasting: false };
}

function readable({ message }: Error, code: string): string {
  if (message === "") return "the connection failed";
  return code === "" ? message : `the connection failed: ${message}`;
}

function certificate(code: string, error: Error): string {
  if (code === "CERT_HAS_EXPIRED") return TLS_EXPIRED;
  if (code === "CERT_NOT_YET_VALID") return "the server's certificate is not valid yet, by the clock of this machine";
  if (code === "ERR_TLS_CERT_ALTNAME_INVALID") {
    const { cert } = error as Error & { cert?: { subjectaltname?: string } };
    const names = (cert?.subjectaltname ?? "").split(", ").map((name) => name.replace(/^[^:]*:/, ""));
    return TLS_WRONG_NAME + (names[0] === "" ? ", nor for any other" : `, only for ${names.join(", ")}`);
  }
  return UNTRUSTED.test(code) ? TLS_UNTRUSTED : `the server's certificate cannot be used: ${error.message}`;
}

/** Why the server sent the alert; `undefined` if it says nothing that stays. */
function refusal(alert: string, hasCertificate: boolean): string | undefined {
  const name = alert.toLowerCase().replaceAll("_", " ");
  if (alert === "CERTIFICATE_REQUIRED") return TLS_CLIENT_CERTIFICATE_MISSING;
  if (OF_CERTIFICATE.test(alert) && hasCertificate) return `${TLS_CLIENT_CERTIFICATE_REFUSED} (TLS alert ${name})`;
  if (!OF_CERTIFICATE.test(alert) && !OF_PROTOCOL.test(alert)) return undefined;
  return `the TLS handshake failed: the server sent the alert ${name}`;
}
