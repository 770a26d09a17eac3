//! Each rule, broken in a small API and seen to complain.

use super::rules::{problems, shared_types};
use prost::Message;
use prost_reflect::DescriptorPool;
use protox::{
    Compiler, Error,
    file::{File, FileResolver},
};

const API: &str = r#"
    syntax = "proto3";
    package fencepost.v1;
    option csharp_namespace = "Fencepost.V1";
    option go_package = "github.com/fencepost/fencepost-go/fencepost/v1;fencepostv1";
    option java_multiple_files = true;
    option java_outer_classname = "TestProto";
    option java_package = "io.fencepost.v1";
    option php_metadata_namespace = "Fencepost\\V1\\GPBMetadata";
    option php_namespace = "Fencepost\\V1";
    option ruby_package = "Fencepost::V1";
    service TakeService {
      rpc Take(TakeRequest) returns (TakeResponse);
      rpc Follow(FollowRequest) returns (stream FollowResponse);
    }
    enum LockMode { LOCK_MODE_UNSPECIFIED = 0; LOCK_MODE_SHARED = 1; }
    message TakeRequest { string lock_name = 1; map<string, string> extra = 2; LockMode mode = 3; }
    message TakeResponse {
      enum Mood { MOOD_UNSPECIFIED = 0; MOOD_GOOD = 1; }
      message Part { bool whole = 1; }
      oneof either { string left = 1; string right = 2; }
      optional string may_be = 3;
    }
    message FollowRequest {}
    message FollowResponse {}
"#;

/// What is changed, into what, and what the complaint says.
const WRONG: [(&str, &str, &str); 30] = [
    ("package fencepost.v1;", "package fencepost;", "package fencepost does not end in a version"),
    ("package fencepost.v1;", "package fencepost.v;", "package fencepost.v does not end in a version"),
    ("package fencepost.v1;", "package fencepost.v2;", "package fencepost.v2 belongs in another directory"),
    ("\"Fencepost.V1\"", "\"Fencepost\"", "option csharp_namespace is Some(\"Fencepost\")"),
    (";fencepostv1", "", "option go_package is"),
    ("option java_multiple_files = true;", "", "option java_multiple_files is None"),
    ("java_multiple_files = true;", "java_multiple_files = false;", "option java_multiple_files is Some(\"false\")"),
    ("option java_outer_classname = \"TestProto\";", "", "option java_outer_classname is None"),
    ("\"io.fencepost.v1\"", "\"io.fencepost\"", "option java_package is"),
    (r"\\GPBMetadata", "", "option php_metadata_namespace is"),
    (r#"option php_namespace = "Fencepost\\V1";"#, "", "option php_namespace is None"),
    ("Fencepost::V1", "Fencepost", "option ruby_package is"),
    ("message FollowRequest {}", "message FollowRequest {} message Lock {}", "Lock clashes with java.util.concurrent"),
    ("enum LockMode", "enum Condition { CONDITION_UNSPECIFIED = 0; } enum LockMode", "Condition clashes with java"),
    ("service TakeService", "service Take", "service fencepost.v1.Take is not named"),
    ("rpc Follow", "rpc follow", "rpc fencepost.v1.TakeService.follow is not named in PascalCase"),
    ("(TakeRequest)", "(TakeResponse)", "Take does not take TakeRequest"),
    ("returns (TakeResponse)", "returns (TakeResponse.Part)", "Take does not take TakeRequest and answer TakeResponse"),
    ("message FollowRequest {}", "message FollowRequest {} message low {}", "message fencepost.v1.low is not named"),
    ("message Part", "message part", "message fencepost.v1.TakeResponse.part is not named in PascalCase"),
    ("string lock_name", "string lockName", "TakeRequest.lockName is not named in lower_snake_case"),
    ("bool whole", "bool Whole", "Part.Whole is not named in lower_snake_case"),
    ("oneof either", "oneof Either", "TakeResponse.Either is not named in lower_snake_case"),
    ("enum Mood", "enum mood", "enum fencepost.v1.TakeResponse.mood is not named in PascalCase"),
    ("LOCK_MODE_SHARED", "SHARED", "enum value fencepost.v1.SHARED is not named LOCK_MODE_"),
    ("LOCK_MODE_SHARED", "LOCK_MODE_shared", "LOCK_MODE_shared is not named"),
    ("LOCK_MODE_UNSPECIFIED", "LOCK_MODE_NONE", "LOCK_MODE_NONE: zero, and only zero"),
    ("(FollowRequest)", "(TakeRequest)", "message fencepost.v1.TakeRequest belongs to more than one call"),
    ("MOOD_GOOD", "GOOD", "GOOD is not named MOOD_"),
    ("MOOD_UNSPECIFIED", "MOOD_NONE", "MOOD_NONE: zero, and only zero"),
];

struct Inline(String);

impl FileResolver for Inline {
    fn open_file(&self, name: &str) -> Result<File, Error> {
        File::from_source(name, &self.0)
    }
}

fn complaints(source: String) -> Vec<String> {
    const FILE: &str = "fencepost/v1/test.proto";
    let mut compiler = Compiler::with_file_resolver(Inline(source));
    compiler.open_file(FILE).unwrap();
    let pool = DescriptorPool::decode(compiler.file_descriptor_set().encode_to_vec().as_slice()).unwrap();
    let mut complaints = problems(&pool.get_file_by_name(FILE).unwrap());
    complaints.extend(shared_types(&pool));
    complaints
}

#[test]
fn what_is_right_passes() {
    assert_eq!(complaints(API.to_owned()), Vec::<String>::new());
}

#[test]
fn what_is_wrong_is_refused() {
    for (from, to, complaint) in WRONG {
        assert!(API.contains(from), "{from:?} is not in the API");
        let said = complaints(API.replacen(from, to, 1));
        assert!(said.iter().any(|said| said.contains(complaint)), "{from:?} -> {to:?} said only {said:?}");
    }
}
