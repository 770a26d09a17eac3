//! Bearer tokens: the client asks for one before each call and each stream, and sends it as `authorization`.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Request, Status};

/// A channel whose requests carry the token.
pub(crate) type Connection = InterceptedService<Channel, Bearer>;

/// What the caller's provider returns.
type Provided = Result<String, Box<dyn Error + Send + Sync>>;

/// Where tokens come from, if the servers want one.
#[derive(Clone, Default)]
pub(crate) struct Bearer(Option<Arc<dyn Fn() -> Provided + Send + Sync>>);

impl Bearer {
    pub(crate) fn new(provider: impl Fn() -> Provided + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(provider)))
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.is_some()
    }
}

impl fmt::Debug for Bearer {
    /// Omits the token, which is a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_set() { "Bearer(***)" } else { "Bearer(none)" })
    }
}

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let Some(provider) = &self.0 else { return Ok(request) };
        // Nothing is sent without the token.
        let token = provider().map_err(|error| Status::unauthenticated(format!("no bearer token: {error}")))?;
        let mut value: MetadataValue<Ascii> = format!("Bearer {token}")
            .parse()
            .map_err(|_| Status::unauthenticated("the bearer token has characters that a header cannot have"))?;
        value.set_sensitive(true);
        request.metadata_mut().insert("authorization", value);
        Ok(request)
    }
}
