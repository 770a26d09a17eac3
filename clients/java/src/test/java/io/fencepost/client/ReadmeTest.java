package io.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fencepost.client.testing.FencepostServer;
import java.io.StringWriter;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import javax.tools.JavaCompiler;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Compiles and runs the code blocks of the README, with real servers at the addresses that they name. */
@Timeout(90)
class ReadmeTest {
  private static final Path HERE = Path.of(System.getProperty("repository.root"), "clients", "java");

  private static List<String> blocks(String language) throws Exception {
    return Pattern.compile("```" + language + "\n(.*?)```", Pattern.DOTALL)
        .matcher(Files.readString(HERE.resolve("README.md")))
        .results()
        .map(MatchResult::group)
        .map(block -> block.substring(block.indexOf('\n') + 1, block.length() - "```".length()))
        .toList();
  }

  @Test
  void theCodeRuns(@TempDir Path folder) throws Exception {
    Certificates authority = new Certificates(folder.resolve("authority"));
    Certificates.Issued issued = authority.issue("server", "DNS:localhost");
    Certificates.Issued mine = authority.issue("me", "DNS:me");
    try (FencepostServer server = FencepostServer.start();
        FencepostServer secure = FencepostServer.start(
            "--tls-cert", issued.certificate().toString(), "--tls-key", issued.key().toString(),
            "--tls-client-ca", authority.ca().toString());
        Redis redis = Redis.start()) {
      String url = "https://localhost" + secure.address().substring(secure.address().lastIndexOf(':'));
      Map<String, String> real = Map.of(
          "127.0.0.1:7420", server.address(), "https://locks-1:7420", url, "https://locks-2:7420", url,
          "ca.pem", authority.ca().toString(), "me.pem", mine.certificate().toString(),
          "me.key", mine.key().toString(), "JdbcGuard.postgres()", "JdbcGuard.sqlite()");
      List<String> blocks = blocks("java");
      assertTrue(blocks.size() >= 7, "all blocks are found");
      for (int n = 0; n < blocks.size(); n++) {
        String code = blocks.get(n);
        for (Map.Entry<String, String> entry : real.entrySet()) {
          code = code.replace(entry.getKey(), entry.getValue());
        }
        ReadmeBlock block = compile(folder, "Block" + n, code);
        block.runWith(server.address(), redis.url(), folder.resolve("orders.db"));
      }
    }
  }

  private static ReadmeBlock compile(Path folder, String name, String code) throws Exception {
    // A client that a block declares and leaves open is used and closed after it; the one around it is used twice.
    boolean declares = code.contains("\nFencepostClient client =");
    String use = declares ? "client.acquire(\"used\").get().release(); client.close();" : "";
    Path source = folder.resolve(name + ".java");
    Map<Boolean, List<String>> lines = code.lines().collect(Collectors.partitioningBy(it -> it.startsWith("import ")));
    Files.writeString(source, String.join("\n", lines.get(true))
        + "\nimport io.fencepost.client.ReadmeBlock;\npublic final class " + name + " extends ReadmeBlock {\n"
        + "@Override public void run() throws Exception {\n"
        + String.join("\n", lines.get(false)) + use + "\n}\n}\n");
    JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
    StringWriter output = new StringWriter();
    List<String> options = List.of("-d", folder.toString(), "-cp", System.getProperty("java.class.path"), "-proc:none");
    try (var files = compiler.getStandardFileManager(null, null, null)) {
      boolean compiled = compiler.getTask(
          output, files, null, options, null, files.getJavaFileObjects(source)).call();
      assertTrue(compiled, () -> "a block of the README does not compile:\n" + code + output);
    }
    try (URLClassLoader loader = new URLClassLoader(new URL[] {folder.toUri().toURL()})) {
      return (ReadmeBlock) loader.loadClass(name).getConstructor().newInstance();
    }
  }

  @Test
  void theVersionIsThatOfThePom() throws Exception {
    String pom = Files.readString(HERE.resolve("pom.xml"));
    String project = pom.substring(0, pom.indexOf("<name>"));
    assertTrue(project.contains("<version>" + FencepostClient.VERSION + "</version>"), project);
  }

  @Test
  void theDependencyIsThatOfThePom() throws Exception {
    String pom = Files.readString(HERE.resolve("pom.xml"));
    List<String> dependency =
        blocks("xml").get(0).lines().map(String::strip).filter(it -> !it.contains("dependency>")).toList();
    assertEquals(3, dependency.size());
    String project = pom.substring(0, pom.indexOf("<name>"));
    dependency.forEach(line -> assertTrue(project.contains(line), line));
  }
}
