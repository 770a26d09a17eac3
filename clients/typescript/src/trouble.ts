/** Why a connection fails. */

export interface Trouble {
  readonly text: string;
  /** Whether that stays until somebody changes certificates, on either side. */
  readonly isLasting: boolean;
}

/** The codes of Node for certificates of servers that are not accepted. */
const UNTRUSTED = /^(?:(?:UNABLE_TO|CERT|DEPTH_ZERO|SELF_SIGNED|PATH_LENGTH|ERR_TLS_CERT)_|INVALID_(?:CA|PURPOSE)$)/;

/** The codes of Node for alerts with which a server refuses a handshake, mostly for the certificate of the client. */
const REFUSED = new RegExp(
  "_ALERT_(?:CERTIFICATE_[A-Z]+|(?:BAD|UNSUPPORTED)_CERTIFICATE|UNKNOWN_CA|ACCESS_DENIED|DECRYPT_ERROR|" +
    "HANDSHAKE_FAILURE|PROTOCOL_VERSION|INSUFFICIENT_SECURITY|NO_APPLICATION_PROTOCOL)$",
);

/** The codes of Node for an answer that is not one of TLS. */
const NOT_TLS = /^ERR_SSL_(?:WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG|HTTP_REQUEST)$/;

/** The innermost cause says what happened; the outer ones name what was called. */
export function troubleOf(error: unknown): Trouble {
  let inner = error;
  while (inner instanceof Error && inner.cause instanceof Error) inner = inner.cause;
  if (inner instanceof AggregateError && inner.errors.length > 0) return troubleOf(inner.errors[0]);
  if (!(inner instanceof Error)) return { text: "the connection failed", isLasting: false };
  const { code = "", reason = "" } = inner as Error & { code?: unknown; reason?: unknown };
  if (UNTRUSTED.test(String(code))) {
    return { text: `the server's certificate is not accepted: ${inner.message}`, isLasting: true };
  }
  // The message is one for OpenSSL's developers.
  const alert = String(reason).replace(/^.* alert /, "");
  if (REFUSED.test(String(code))) return { text: `the server refuses TLS with this client: ${alert}`, isLasting: true };
  if (NOT_TLS.test(String(code))) return { text: "the server does not use TLS: write http://", isLasting: true };
  if (reason !== "") return { text: `TLS fails: ${String(reason)}`, isLasting: false };
  return { text: inner.message === "" ? "the connection failed" : inner.message, isLasting: false };
}
