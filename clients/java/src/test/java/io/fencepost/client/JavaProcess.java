package io.fencepost.client;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** A program of these tests in a JVM of its own, to be paused or ended. It reads and writes lines. */
public final class JavaProcess implements AutoCloseable {
  private final Process process;
  private final BufferedReader output;

  private JavaProcess(Process process) {
    this.process = process;
    this.output = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
  }

  public static JavaProcess start(Class<?> program, String... arguments) throws IOException {
    return start(Map.of(), program.getName(), arguments);
  }

  public static JavaProcess start(Map<String, String> environment, String program, String... arguments)
      throws IOException {
    List<String> command = new ArrayList<>(List.of(
        System.getProperty("java.home") + "/bin/java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
        "-cp", System.getProperty("java.class.path"), program));
    command.addAll(List.of(arguments));
    ProcessBuilder builder = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT);
    builder.environment().putAll(environment);
    Process process = builder.start();
    Runtime.getRuntime().addShutdownHook(new Thread(process::destroyForcibly));
    return new JavaProcess(process);
  }

  /** The next line of its output. */
  public String line() throws IOException {
    String line = output.readLine();
    if (line == null) {
      throw new IOException("the process has ended");
    }
    return line;
  }

  /** Writes a line into its input, where it stays while the process is paused. */
  public void send(String line) throws IOException {
    OutputStream input = process.getOutputStream();
    input.write((line + "\n").getBytes(StandardCharsets.UTF_8));
    input.flush();
  }

  public String ask(String line) throws IOException {
    send(line);
    return line();
  }

  /** Returns when all of its threads have stopped, which is a moment after the signal was sent. */
  public void pause() throws IOException, InterruptedException {
    signal("-STOP");
    while (!isStopped()) {
      Thread.sleep(1);
    }
  }

  private boolean isStopped() throws IOException {
    try (Stream<Path> threads = Files.list(Path.of("/proc", "" + process.pid(), "task"))) {
      for (Path thread : threads.toList()) {
        String stat = Files.readString(thread.resolve("stat"));
        // The state comes after the name, which is in parentheses.
        if (stat.charAt(stat.lastIndexOf(')') + 2) != 'T') {
          return false;
        }
      }
      return true;
    } catch (NoSuchFileException ended) {
      return false;
    }
  }

  public void resume() throws IOException, InterruptedException {
    signal("-CONT");
  }

  /** Asks it to end ({@code SIGTERM}). */
  public void terminate() {
    process.destroy();
  }

  private void signal(String signal) throws IOException, InterruptedException {
    int status = new ProcessBuilder("kill", signal, "" + process.pid()).inheritIO().start().waitFor();
    if (status != 0) {
      throw new IOException("kill " + signal + " failed");
    }
  }

  public boolean ends() throws InterruptedException {
    return process.waitFor(30, TimeUnit.SECONDS);
  }

  @Override
  public void close() {
    process.destroyForcibly();
  }
}
