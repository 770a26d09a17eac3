package io.fencepost.client;

import io.grpc.netty.shaded.io.netty.handler.ssl.NotSslRecordException;
import java.security.cert.CertPathBuilderException;
import java.security.cert.CertPathValidatorException;
import java.security.cert.CertificateException;
import java.security.cert.CertificateExpiredException;
import java.security.cert.CertificateNotYetValidException;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.SSLException;

/**
 * Why TLS with a server failed.
 *
 * @param text follows the server's address and a colon
 * @param permanent whether it stays so until somebody changes certificates or addresses
 */
record TlsFailure(String text, boolean permanent) {
  /** What Netty says of a connection that ended during the handshake, such as that of a server that stops. */
  private static final String NETTY_HANDSHAKE_CUT = "Connection closed while SSL/TLS handshake";

  /** The alert in the message of BoringSSL or of the JDK. */
  private static final Pattern ALERT =
      Pattern.compile("alert[_ :]+(?:number )?\\(?([a-z_]+)|([a-z_]+)\\)? alert", Pattern.CASE_INSENSITIVE);

  /** The failure that explains an error of a connection; null if TLS is not the reason. */
  static TlsFailure of(Throwable error, boolean showsCertificate) {
    List<Throwable> causes = new ArrayList<>();
    for (Throwable cause = error; cause != null; cause = cause.getCause()) {
      causes.add(0, cause); // the innermost says most
    }
    for (Throwable cause : causes) {
      TlsFailure failure = single(cause, showsCertificate);
      if (failure != null) {
        return failure;
      }
    }
    return null;
  }

  private static TlsFailure single(Throwable cause, boolean showsCertificate) {
    String message = String.valueOf(cause.getMessage());
    if (cause instanceof TlsFileException) {
      return new TlsFailure(message, true);
    }
    if (cause instanceof NotSslRecordException) {
      return new TlsFailure(Facts.TLS_NOT_TLS, true);
    }
    if (cause instanceof CertPathBuilderException || cause instanceof CertPathValidatorException) {
      return new TlsFailure(Facts.TLS_UNTRUSTED, true);
    }
    if (cause instanceof CertificateExpiredException) {
      return new TlsFailure(Facts.TLS_EXPIRED, true);
    }
    if (cause instanceof CertificateNotYetValidException) {
      return new TlsFailure("the server's certificate is not valid yet, by the clock of this machine", true);
    }
    if (cause instanceof CertificateException) {
      boolean name = message.startsWith("No subject alternative") || message.startsWith("No name matching");
      return new TlsFailure(
          name ? Facts.TLS_WRONG_NAME : "the server's certificate cannot be used: " + message, true);
    }
    return cause instanceof SSLException ? handshake(message, showsCertificate) : null;
  }

  private static TlsFailure handshake(String message, boolean showsCertificate) {
    if (message.startsWith(NETTY_HANDSHAKE_CUT)) {
      return null; // what was received says more
    }
    Matcher matcher = ALERT.matcher(message);
    if (!matcher.find()) {
      return new TlsFailure("the TLS handshake failed: " + message, true);
    }
    String alert = (matcher.group(1) == null ? matcher.group(2) : matcher.group(1)).toLowerCase(Locale.ROOT);
    if (!showsCertificate && alert.matches(".*(certificate_required|bad_certificate|handshake_failure).*")) {
      return new TlsFailure(
          Facts.TLS_CLIENT_CERTIFICATE_MISSING + ": name its files with Tls.certificateFiles", true);
    }
    if (showsCertificate) {
      return new TlsFailure(Facts.TLS_CLIENT_CERTIFICATE_REFUSED + " (TLS alert " + alert + ")", true);
    }
    return new TlsFailure("the server refused the TLS handshake (TLS alert " + alert + ")", true);
  }
}
