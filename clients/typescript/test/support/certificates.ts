/** Certificates for tests, made by OpenSSL. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";

/** A folder that is removed after the test. */
export function folderOf(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), "fencepost-tls-"));
  t.after(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  return folder;
}

/** Two authorities, certificates of the first for a server on this machine and a client, and one of the second. */
export function certificates(folder: string): void {
  const openssl = (...more: string[]) => execFileSync("openssl", more, { cwd: folder, stdio: "ignore" });
  const curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
  for (const name of ["ca", "other"]) {
    openssl("req", "-x509", ...curve, "-subj", `/CN=${name}`, "-keyout", `${name}.key`, "-out", `${name}.pem`);
  }
  for (const [name, authority] of [["server", "ca"], ["client", "ca"], ["stranger", "other"]] as const) {
    const subject = ["-subj", `/CN=${name}`, "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"];
    const by = ["-CA", `${authority}.pem`, "-CAkey", `${authority}.key`];
    const signed = [...by, "-addext", "basicConstraints=CA:FALSE"];
    openssl("req", "-x509", ...curve, ...subject, ...signed, "-keyout", `${name}.key`, "-out", `${name}.pem`);
  }
}
