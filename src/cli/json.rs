//! Responses as JSON, in the mapping that all protobuf libraries share.

use super::exit::{Failure, OUTPUT};
use fencepost_proto::v1::DESCRIPTORS;
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage};
use serde_json::Value;

/// The JSON of a response; `name` is its message type within the package.
pub(super) fn line(name: &str, reply: &impl Message) -> Result<String, Failure> {
    convert(name, reply, |dynamic| serde_json::to_string(&dynamic))
}

/// The same, as a part of another JSON.
pub(super) fn value(name: &str, reply: &impl Message) -> Result<Value, Failure> {
    convert(name, reply, serde_json::to_value)
}

fn convert<T>(
    name: &str,
    reply: &impl Message,
    encode: impl FnOnce(DynamicMessage) -> serde_json::Result<T>,
) -> Result<T, Failure> {
    let encoded = dynamic(name, reply).and_then(|dynamic| Ok(encode(dynamic)?));
    encoded.map_err(|error| Failure::new(OUTPUT, format!("cannot encode {name} as JSON: {error}")))
}

fn dynamic(name: &str, reply: &impl Message) -> Result<DynamicMessage, Box<dyn std::error::Error>> {
    let pool = DescriptorPool::decode(DESCRIPTORS)?;
    let descriptor = pool.get_message_by_name(&format!("fencepost.v1.{name}")).ok_or("the API has no such message")?;
    Ok(DynamicMessage::decode(descriptor, reply.encode_to_vec().as_slice())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_proto::v1;

    #[test]
    fn tokens_are_strings_enums_are_names_and_defaults_are_omitted() {
        let lease = v1::Lease {
            lock_name: "orders/42".to_owned(),
            fencing_token: (1 << 53) - 1,
            ttl: Some(prost_types::Duration { seconds: 30, nanos: 500_000_000 }),
            ..Default::default()
        };
        let reply = v1::AcquireResponse {
            outcome: v1::acquire_response::Outcome::Acquired.into(),
            lease: Some(lease),
            ..Default::default()
        };
        let lease = r#"{"lockName":"orders/42","fencingToken":"9007199254740991","ttl":"30.500s"}"#;
        let json = format!(r#"{{"outcome":"OUTCOME_ACQUIRED","lease":{lease}}}"#);
        assert_eq!(line("AcquireResponse", &reply).unwrap(), json);
        assert_eq!(line("AcquireResponse", &v1::AcquireResponse::default()).unwrap(), "{}");
    }

    #[test]
    fn an_unknown_message_type_is_an_error() {
        assert!(line("Nothing", &v1::Lease::default()).unwrap_err().message.contains("no such message"));
    }
}
