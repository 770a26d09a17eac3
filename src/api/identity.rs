//! Tells clients which store a server uses, as metadata of health checks and of streams: servers that a client calls
//! must share one store, and only the store knows whether they do.

use std::sync::Arc;
use tonic::metadata::{MetadataMap, MetadataValue};

/// The metadata that has the kind of store.
pub(crate) const STORE_METADATA: &str = "fencepost-store";
/// The metadata that has the id of the store, once the server knows it: servers with the same id share their locks. No
/// secret: it gives access to nothing.
pub(crate) const STORE_ID_METADATA: &str = "fencepost-store-id";

/// The store of a server.
#[derive(Clone)]
pub struct StoreIdentity {
    kind: &'static str,
    id: Arc<dyn Fn() -> Option<u128> + Send + Sync>,
}

impl StoreIdentity {
    /// A store of this kind. `id` returns its id, when it is known.
    pub fn new(kind: &'static str, id: impl Fn() -> Option<u128> + Send + Sync + 'static) -> Self {
        Self { kind, id: Arc::new(id) }
    }

    /// Adds the kind and the id to the metadata of an answer.
    pub(crate) fn add_to(&self, metadata: &mut MetadataMap) {
        metadata.insert(STORE_METADATA, MetadataValue::from_static(self.kind));
        if let Some(id) = (self.id)().and_then(|id| format!("{id:032x}").parse().ok()) {
            metadata.insert(STORE_ID_METADATA, id);
        }
    }
}
