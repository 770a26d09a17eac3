//! What a proto file of the API has to look like, one rule a function.

use prost_reflect::{DescriptorPool, EnumDescriptor, FileDescriptor, MessageDescriptor, ServiceDescriptor};
use std::collections::HashSet;

/// Java code imports `java.util.concurrent.locks.*` beside this API: no class may be called as one of its classes.
const JAVA_LOCKS: [&str; 10] = [
    "AbstractOwnableSynchronizer",
    "AbstractQueuedLongSynchronizer",
    "AbstractQueuedSynchronizer",
    "Condition",
    "Lock",
    "LockSupport",
    "ReadWriteLock",
    "ReentrantLock",
    "ReentrantReadWriteLock",
    "StampedLock",
];

/// Everything that is wrong in one file.
pub(crate) fn problems(file: &FileDescriptor) -> Vec<String> {
    let mut problems = Vec::new();
    check_package(file, &mut problems);
    check_options(file, &mut problems);
    file.messages().for_each(|message| check_message(&message, &mut problems));
    file.enums().for_each(|enumeration| check_enum(&enumeration, &mut problems));
    file.services().for_each(|service| check_service(&service, &mut problems));
    problems
}

/// A message that two calls share cannot grow a field for one of them.
pub(crate) fn shared_types(pool: &DescriptorPool) -> Vec<String> {
    let methods: Vec<_> = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>()).collect();
    let mut seen = HashSet::new();
    methods
        .iter()
        .flat_map(|method| [method.input(), method.output()])
        .filter(|message| !seen.insert(message.full_name().to_owned()))
        .map(|message| format!("message {} belongs to more than one call", message.full_name()))
        .collect()
}

fn check_package(file: &FileDescriptor, problems: &mut Vec<String>) {
    let (package, name) = (file.package_name(), file.name());
    let version = package.rsplit('.').next().and_then(|last| last.strip_prefix('v')).unwrap_or_default();
    if version.parse::<u32>().is_err() {
        problems.push(format!("{name}: package {package} does not end in a version"));
    }
    if name.rsplit_once('/').map(|(directory, _)| directory) != Some(&package.replace('.', "/")) {
        problems.push(format!("{name}: package {package} belongs in another directory"));
    }
}

/// What generated code is called. All files of a package agree on it, except on the name of Java's class for the file
/// itself: by default that would be `Lock` for `lock.proto`.
fn check_options(file: &FileDescriptor, problems: &mut Vec<String>) {
    let options = file.file_descriptor_proto().options.clone().unwrap_or_default();
    let outer_class = format!("{}Proto", pascal(stem(file.name())));
    let expected = [
        ("csharp_namespace", options.csharp_namespace, "Fencepost.V1"),
        ("go_package", options.go_package, "github.com/fencepost/fencepost-go/fencepost/v1;fencepostv1"),
        ("java_multiple_files", options.java_multiple_files.map(|value| value.to_string()), "true"),
        ("java_outer_classname", options.java_outer_classname, &outer_class),
        ("java_package", options.java_package, "io.fencepost.v1"),
        ("php_metadata_namespace", options.php_metadata_namespace, r"Fencepost\V1\GPBMetadata"),
        ("php_namespace", options.php_namespace, r"Fencepost\V1"),
        ("ruby_package", options.ruby_package, "Fencepost::V1"),
    ];
    for (option, value, expected) in expected {
        if value.as_deref() != Some(expected) {
            problems.push(format!("{}: option {option} is {value:?}, not {expected:?}", file.name()));
        }
    }
    let messages = file.messages().map(|message| message.name().to_owned());
    let classes = messages.chain(file.enums().map(|enumeration| enumeration.name().to_owned()));
    for class in classes.filter(|class| JAVA_LOCKS.contains(&class.as_str())) {
        problems.push(format!("{}: {class} clashes with java.util.concurrent.locks.{class}", file.name()));
    }
}

fn check_message(message: &MessageDescriptor, problems: &mut Vec<String>) {
    // The compiler names the entries of a map itself.
    if message.is_map_entry() {
        return;
    }
    if pascal(&snake(message.name())) != message.name() {
        problems.push(format!("message {} is not named in PascalCase", message.full_name()));
    }
    for field in message.fields().filter(|field| !is_snake(field.name())) {
        problems.push(format!("{} is not named in lower_snake_case", field.full_name()));
    }
    // The compiler makes one for each optional field, and names it.
    for oneof in message.oneofs().filter(|oneof| !oneof.is_synthetic() && !is_snake(oneof.name())) {
        problems.push(format!("{} is not named in lower_snake_case", oneof.full_name()));
    }
    message.child_messages().for_each(|child| check_message(&child, problems));
    message.child_enums().for_each(|child| check_enum(&child, problems));
}

fn check_enum(enumeration: &EnumDescriptor, problems: &mut Vec<String>) {
    let prefix = snake(enumeration.name()).to_uppercase();
    if pascal(&snake(enumeration.name())) != enumeration.name() {
        problems.push(format!("enum {} is not named in PascalCase", enumeration.full_name()));
    }
    for value in enumeration.values() {
        let name = value.name();
        if !name.starts_with(&format!("{prefix}_")) || !is_snake(&name.to_lowercase()) || name != name.to_uppercase() {
            problems.push(format!("enum value {} is not named {prefix}_…", value.full_name()));
        }
        if (value.number() == 0) != (name == format!("{prefix}_UNSPECIFIED")) {
            problems.push(format!("enum value {}: zero, and only zero, is {prefix}_UNSPECIFIED", value.full_name()));
        }
    }
}

fn check_service(service: &ServiceDescriptor, problems: &mut Vec<String>) {
    if !service.name().ends_with("Service") {
        problems.push(format!("service {} is not named …Service", service.full_name()));
    }
    for method in service.methods() {
        let (name, input, output) = (method.name(), method.input(), method.output());
        if pascal(&snake(name)) != name {
            problems.push(format!("rpc {} is not named in PascalCase", method.full_name()));
        }
        if input.name() != format!("{name}Request") || output.name() != format!("{name}Response") {
            problems.push(format!("rpc {} does not take {name}Request and answer {name}Response", method.full_name()));
        }
    }
}

/// `fencepost/v1/lock.proto` -> `lock`.
fn stem(file: &str) -> &str {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.strip_suffix(".proto").unwrap_or(name)
}

/// `LockMode` -> `lock_mode`.
fn snake(pascal: &str) -> String {
    let mut snake = String::new();
    for letter in pascal.chars() {
        if letter.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

/// `lock_mode` -> `LockMode`.
fn pascal(snake: &str) -> String {
    let word = |word: &str| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_uppercase() + rest
    };
    snake.split('_').map(word).collect()
}

fn is_snake(name: &str) -> bool {
    name.split('_').all(|word| {
        !word.is_empty() && word.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit())
    })
}
