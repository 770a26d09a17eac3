//! What counts as breaking, one rule a function.

use prost_reflect::{
    Cardinality, DescriptorPool, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor, ServiceDescriptor,
};

/// Everything in `new` that breaks a client built against `old`; additions are no part of it.
pub(crate) fn breaking_changes(old: &DescriptorPool, new: &DescriptorPool) -> Vec<String> {
    let mut broken = Vec::new();
    for message in old.all_messages() {
        match new.get_message_by_name(message.full_name()) {
            Some(now) => compare_messages(&message, &now, &mut broken),
            None => broken.push(format!("message {} is removed", message.full_name())),
        }
    }
    for enumeration in old.all_enums() {
        match new.get_enum_by_name(enumeration.full_name()) {
            Some(now) => compare_enums(&enumeration, &now, &mut broken),
            None => broken.push(format!("enum {} is removed", enumeration.full_name())),
        }
    }
    for service in old.services() {
        match new.get_service_by_name(service.full_name()) {
            Some(now) => compare_services(&service, &now, &mut broken),
            None => broken.push(format!("service {} is removed", service.full_name())),
        }
    }
    broken
}

fn compare_messages(old: &MessageDescriptor, new: &MessageDescriptor, broken: &mut Vec<String>) {
    let name = old.full_name();
    for field in old.fields() {
        match new.get_field(field.number()) {
            Some(now) => compare_fields(&field, &now, broken),
            None => {
                // Unreserved, the number or the name could come back with another meaning.
                if !new.reserved_ranges().any(|range| range.contains(&field.number())) {
                    broken.push(format!(
                        "{} is removed without reserving number {}",
                        field.full_name(),
                        field.number()
                    ));
                }
                if !new.reserved_names().any(|reserved| reserved == field.name()) {
                    broken.push(format!("{} is removed without reserving its name", field.full_name()));
                }
            }
        }
    }
    for range in old.reserved_ranges() {
        if !new.reserved_ranges().any(|now| now.start <= range.start && now.end >= range.end) {
            broken.push(format!("{name} no longer reserves the numbers {range:?}"));
        }
    }
    for reserved in old.reserved_names() {
        if !new.reserved_names().any(|now| now == reserved) {
            broken.push(format!("{name} no longer reserves the name {reserved}"));
        }
    }
}

fn compare_fields(old: &FieldDescriptor, new: &FieldDescriptor, broken: &mut Vec<String>) {
    let mut must_equal = |what: &str, before: String, after: String| {
        if before != after {
            broken.push(format!("{} changes its {what}: {before} -> {after}", old.full_name()));
        }
    };
    must_equal("name", old.name().to_owned(), new.name().to_owned());
    must_equal("JSON name", old.json_name().to_owned(), new.json_name().to_owned());
    must_equal("type", kind(&old.kind()), kind(&new.kind()));
    must_equal("label", label(old), label(new));
    must_equal("oneof", oneof(old), oneof(new));
    must_equal("packing", old.is_packed().to_string(), new.is_packed().to_string());
}

fn compare_enums(old: &EnumDescriptor, new: &EnumDescriptor, broken: &mut Vec<String>) {
    for value in old.values() {
        match new.get_value_by_name(value.name()) {
            None => broken.push(format!("enum value {} is removed", value.full_name())),
            Some(now) if now.number() != value.number() => {
                broken.push(format!(
                    "enum value {} is renumbered: {} -> {}",
                    value.full_name(),
                    value.number(),
                    now.number()
                ));
            }
            Some(_) => {}
        }
    }
}

fn compare_services(old: &ServiceDescriptor, new: &ServiceDescriptor, broken: &mut Vec<String>) {
    for method in old.methods() {
        let name = method.full_name();
        let Some(now) = new.methods().find(|now| now.name() == method.name()) else {
            broken.push(format!("rpc {name} is removed"));
            continue;
        };
        if method.input().full_name() != now.input().full_name() {
            broken.push(format!("rpc {name} takes another message"));
        }
        if method.output().full_name() != now.output().full_name() {
            broken.push(format!("rpc {name} answers another message"));
        }
        if method.is_client_streaming() != now.is_client_streaming()
            || method.is_server_streaming() != now.is_server_streaming()
        {
            broken.push(format!("rpc {name} changes its streaming"));
        }
    }
}

fn kind(kind: &Kind) -> String {
    match kind {
        Kind::Message(message) => message.full_name().to_owned(),
        Kind::Enum(enumeration) => enumeration.full_name().to_owned(),
        scalar => format!("{scalar:?}"),
    }
}

fn label(field: &FieldDescriptor) -> String {
    match field.cardinality() {
        Cardinality::Repeated => "repeated",
        Cardinality::Required => "required",
        Cardinality::Optional if field.supports_presence() => "optional",
        Cardinality::Optional => "singular",
    }
    .to_owned()
}

fn oneof(field: &FieldDescriptor) -> String {
    match field.containing_oneof() {
        // What `optional` makes of itself shows in the label.
        Some(oneof) if !oneof.is_synthetic() => oneof.name().to_owned(),
        _ => "none".to_owned(),
    }
}
