//! Each kind of breaking change, made to a small API and seen refused; additions seen allowed.

use super::compare::breaking_changes;
use prost::Message;
use prost_reflect::DescriptorPool;
use protox::{
    Compiler, Error,
    file::{File, FileResolver},
};

const API: &str = r#"
    syntax = "proto3";
    package test.v1;
    service Locks {
      rpc Take(Ask) returns (Answer);
      rpc Follow(Ask) returns (stream Answer);
    }
    service Admin {}
    enum Color { COLOR_NONE = 0; COLOR_RED = 1; COLOR_BLUE = 2; }
    message Ask {
      reserved 9;
      reserved "old";
      string name = 1;
      int32 count = 2;
      repeated int32 many = 3;
      oneof either { string left = 4; string right = 5; }
      Color color = 6;
      Answer inner = 7;
      map<string, string> extra = 8;
    }
    message Answer { uint64 token = 1; message Part { bool good = 1; } enum Mood { MOOD_NONE = 0; } }
    message Spare {}
    enum Unused { UNUSED_NONE = 0; }
"#;

/// What is changed, into what, and what the refusal says.
const BREAKING: [(&str, &str, &str); 29] = [
    ("message Spare {}", "", "message test.v1.Spare is removed"),
    ("message Spare {}", "message Other {}", "message test.v1.Spare is removed"),
    ("message Part { bool good = 1; }", "", "message test.v1.Answer.Part is removed"),
    ("enum Unused { UNUSED_NONE = 0; }", "", "enum test.v1.Unused is removed"),
    ("enum Mood { MOOD_NONE = 0; }", "", "enum test.v1.Answer.Mood is removed"),
    ("service Admin {}", "", "service test.v1.Admin is removed"),
    ("package test.v1;", "package test.v2;", "service test.v1.Locks is removed"),
    ("rpc Take(Ask) returns (Answer);", "", "rpc test.v1.Locks.Take is removed"),
    ("rpc Take(Ask)", "rpc Take(Answer)", "rpc test.v1.Locks.Take takes another message"),
    ("Take(Ask) returns (Answer)", "Take(Ask) returns (Ask)", "rpc test.v1.Locks.Take answers another message"),
    ("rpc Take(Ask)", "rpc Take(stream Ask)", "rpc test.v1.Locks.Take changes its streaming"),
    ("returns (stream Answer)", "returns (Answer)", "rpc test.v1.Locks.Follow changes its streaming"),
    ("int32 count = 2;", "", "test.v1.Ask.count is removed without reserving number 2"),
    ("int32 count = 2;", "reserved 2;", "test.v1.Ask.count is removed without reserving its name"),
    ("int32 count = 2;", "reserved \"count\";", "test.v1.Ask.count is removed without reserving number 2"),
    ("int32 count = 2;", "int32 count = 12;", "test.v1.Ask.count is removed without reserving number 2"),
    ("int32 count = 2;", "int64 count = 2;", "test.v1.Ask.count changes its type: int32 -> int64"),
    ("Answer inner = 7;", "Spare inner = 7;", "changes its type: test.v1.Answer -> test.v1.Spare"),
    ("Color color = 6;", "Unused color = 6;", "changes its type: test.v1.Color -> test.v1.Unused"),
    ("map<string, string>", "map<string, int32>", "test.v1.Ask.ExtraEntry.value changes its type"),
    ("int32 count = 2;", "repeated int32 count = 2;", "test.v1.Ask.count changes its label: singular -> repeated"),
    ("int32 count = 2;", "optional int32 count = 2;", "test.v1.Ask.count changes its label: singular -> optional"),
    ("int32 count = 2;", "int32 number = 2;", "test.v1.Ask.count changes its name: count -> number"),
    ("int32 count = 2;", "int32 count = 2 [json_name = \"n\"];", "test.v1.Ask.count changes its JSON name"),
    ("string right = 5; }", "} string right = 5;", "test.v1.Ask.right changes its oneof: either -> none"),
    ("repeated int32 many = 3;", "repeated int32 many = 3 [packed = false];", "test.v1.Ask.many changes its packing"),
    ("COLOR_BLUE = 2;", "", "enum value test.v1.COLOR_BLUE is removed"),
    ("COLOR_BLUE = 2;", "COLOR_BLUE = 3;", "enum value test.v1.COLOR_BLUE is renumbered: 2 -> 3"),
    ("reserved 9;", "", "test.v1.Ask no longer reserves the numbers 9..10"),
];

/// What may be done.
const ALLOWED: [(&str, &str); 9] = [
    ("message Spare {}", "message Spare {} message More {}"),
    ("rpc Take(Ask)", "rpc Give(Ask) returns (Answer); rpc Take(Ask)"),
    ("service Admin {}", "service Admin {} service Other {}"),
    ("int32 count = 2;", "int32 count = 2; int32 new = 20;"),
    ("int32 count = 2;", "reserved 2; reserved \"count\";"),
    ("string right = 5;", "string right = 5; string middle = 15;"),
    ("COLOR_BLUE = 2;", "COLOR_BLUE = 2; COLOR_GREEN = 3;"),
    ("reserved 9;", "reserved 9 to 11;"),
    ("message Spare {}", "message Spare { string now = 1; }"),
];

struct Inline(String);

impl FileResolver for Inline {
    fn open_file(&self, name: &str) -> Result<File, Error> {
        File::from_source(name, &self.0)
    }
}

fn compiled(source: String) -> DescriptorPool {
    let mut compiler = Compiler::with_file_resolver(Inline(source));
    compiler.open_file("test.proto").unwrap();
    DescriptorPool::decode(compiler.file_descriptor_set().encode_to_vec().as_slice()).unwrap()
}

fn broken_by(from: &str, to: &str) -> Vec<String> {
    assert!(API.contains(from), "{from:?} is not in the API");
    breaking_changes(&compiled(API.to_owned()), &compiled(API.replacen(from, to, 1)))
}

#[test]
fn every_breaking_change_is_refused() {
    for (from, to, refusal) in BREAKING {
        let broken = broken_by(from, to);
        assert!(broken.iter().any(|said| said.contains(refusal)), "{from:?} -> {to:?} said only {broken:?}");
    }
    let broken = broken_by("reserved \"old\";", "");
    assert_eq!(broken, ["test.v1.Ask no longer reserves the name old"]);
}

#[test]
fn additions_are_allowed() {
    for (from, to) in ALLOWED {
        assert_eq!(broken_by(from, to), Vec::<String>::new(), "{from:?} -> {to:?}");
    }
}
