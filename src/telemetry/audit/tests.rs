use super::*;
use std::{
    fs::{self, File, OpenOptions},
    io::Read,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process::Command,
};
use tokio::time::Instant;

fn denied(name: &str) -> AuditEvent {
    let lock_name = Some(name.to_owned());
    AuditEvent { event: "denied", outcome: "refused", lock_name, ..AuditEvent::default() }
}

fn log(path: &Path, metrics: &Arc<AuditMetrics>) -> Audit {
    Audit::start(AuditFile::open(path).unwrap(), "host".to_owned(), metrics.clone()).unwrap()
}

fn pipe(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    path
}

/// Opens a pipe for reading, as its only reader.
fn reader(path: &Path) -> File {
    OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK).open(path).unwrap()
}

#[test]
fn lines_are_json_and_go_to_a_new_file_once_the_old_one_is_moved() {
    let (folder, metrics) = (tempfile::tempdir().unwrap(), Arc::default());
    let (path, moved) = (folder.path().join("audit"), folder.path().join("audit.1"));
    let audit = log(&path, &metrics);
    audit.note(SystemTime::UNIX_EPOCH, &denied("a\n\"1\""));
    audit.look();
    drop(audit);
    let first = "{\"time\":\"1970-01-01T00:00:00.000Z\",\"server\":\"host\",\"event\":\"denied\",\
                 \"outcome\":\"refused\",\"lock_name\":\"a\\n\\\"1\\\"\"}\n";
    assert_eq!(fs::read_to_string(&path).unwrap(), first);
    assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);

    let audit = log(&path, &metrics);
    fs::rename(&path, &moved).unwrap();
    audit.note(SystemTime::UNIX_EPOCH, &denied("b"));
    audit.look();
    audit.note(SystemTime::UNIX_EPOCH, &denied("c"));
    drop(audit);
    assert!(fs::read_to_string(&moved).unwrap().contains("\"b\""), "no line is lost between the two");
    assert!(fs::read_to_string(&path).unwrap().contains("\"c\""));
    assert_eq!(metrics.lost.get(), 0);
}

#[test]
fn what_cannot_be_written_is_counted() {
    let metrics = Arc::default();
    let full = log(Path::new("/dev/full"), &metrics);
    full.note(SystemTime::UNIX_EPOCH, &denied("a"));
    drop(full);
    assert_eq!(metrics.lost.get(), 1);
    assert!(AuditFile::open(Path::new("/no/such/folder")).is_err());
}

#[test]
fn a_pipe_without_a_reader_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let refused = AuditFile::open(&pipe(folder.path(), "pipe")).unwrap_err().to_string();
    assert_eq!(refused, "it is a pipe that nobody reads: start its reader first");
}

#[test]
fn a_pipe_may_get_another_reader_and_what_none_reads_is_counted() {
    let (folder, metrics) = (tempfile::tempdir().unwrap(), Arc::default());
    let path = pipe(folder.path(), "pipe");
    let mut first = reader(&path);
    let audit = log(&path, &metrics);
    audit.note(SystemTime::UNIX_EPOCH, &denied("a"));
    until(|| audit.losses.backlog.is_done(1));
    assert!(first.read(&mut [0; 4_096]).is_ok_and(|length| length > 0));
    drop(first);
    audit.note(SystemTime::UNIX_EPOCH, &denied("b"));
    until(|| metrics.lost.get() == 1);
    let second = reader(&path);
    audit.note(SystemTime::UNIX_EPOCH, &denied("c"));
    drop(audit);
    let read = lines(&second);
    assert!(read.len() == 1 && read[0].contains("\"c\"") && metrics.lost.get() == 1, "{read:?}");
}

#[test]
fn of_a_pipe_that_is_not_read_each_line_is_written_or_counted() {
    let (folder, metrics) = (tempfile::tempdir().unwrap(), Arc::default());
    let path = pipe(folder.path(), "pipe");
    let reader = reader(&path);
    let audit = log(&path, &metrics);
    let noted = LINES_BACKLOG_MAX + 5_000;
    for number in 0..noted {
        audit.note(SystemTime::UNIX_EPOCH, &denied(&number.to_string()));
    }
    let lost_before = metrics.lost.get();
    assert!(lost_before > 0, "the backlog has a bound");
    let begun = Instant::now();
    audit.finish();
    assert!(begun.elapsed() < 5 * FLUSH_TIMEOUT, "the end does not wait for a reader");
    assert!(metrics.lost.get() > lost_before, "what waits at the end is lost");
    audit.note(SystemTime::UNIX_EPOCH, &denied("late"));
    drop(audit);
    let written = lines(&reader);
    assert!(written.iter().all(|line| line.ends_with('}')), "whole lines only");
    assert_eq!(written.len() as u64 + metrics.lost.get(), noted as u64 + 1);
}

#[test]
fn a_pipe_that_is_moved_away_while_it_is_full_makes_room_for_a_file() {
    let (folder, metrics) = (tempfile::tempdir().unwrap(), Arc::default());
    let path = pipe(folder.path(), "log");
    let reader = reader(&path);
    let audit = log(&path, &metrics);
    for number in 0..2_000 {
        audit.note(SystemTime::UNIX_EPOCH, &denied(&number.to_string()));
    }
    fs::rename(&path, folder.path().join("log.1")).unwrap();
    until(|| audit.losses.backlog.is_done(2_000));
    drop(audit);
    let in_pipe = lines(&reader).len();
    let in_file = fs::read_to_string(&path).unwrap().lines().count();
    assert_eq!((in_pipe + in_file, metrics.lost.get()), (2_000, 0));
    assert!(in_pipe > 0 && in_file > 0, "{in_pipe} {in_file}");
}

/// What is read from a pipe until its last writer has closed it.
fn lines(mut pipe: &File) -> Vec<String> {
    let mut bytes = Vec::new();
    until(|| pipe.read_to_end(&mut bytes).is_ok());
    String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
}

fn until(mut reached: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !reached() {
        assert!(Instant::now() < end, "not reached");
        thread::sleep(Duration::from_millis(5));
    }
}
