//! The Redis servers on which a command operates.

use super::exit::{COMMAND_LINE, CONFIG, Failure};
use crate::{
    config::{self, urls_in, why_no_list},
    domain::limits::STORE_PREFIX_DEFAULT,
    node::{Login, NodeFile, NodeFileProblem, NodeUrl, TlsFiles},
};
use clap::Args;
use std::{ffi::OsString, path::PathBuf};

/// The store, as serve has it.
#[derive(Args, Clone, Debug)]
pub(crate) struct StoreArgs {
    // Not parsed by clap, whose error message would contain the password of an invalid URL.
    /// URL of the Redis, or URLs with commas between, as for serve: redis://[user:password@]host:port[/db],
    /// rediss:// for TLS, redis+sentinel://host,host,host/name, or redis+cluster://host,host,host
    #[arg(long, value_name = "URL", env = "FENCEPOST_STORE", hide_env_values = true, required = true)]
    store: Option<String>,

    /// Name of the store in Redis, as for serve
    #[arg(
        long, value_name = "NAME", env = "FENCEPOST_STORE_PREFIX", default_value = STORE_PREFIX_DEFAULT,
        value_parser = config::store_prefix
    )]
    store_prefix: String,

    /// PEM file with the authorities of a rediss:// store, in place of the machine's roots
    #[arg(long, value_name = "FILE", env = "FENCEPOST_STORE_CA", value_parser = clap::value_parser!(OsString))]
    store_ca: Option<OsString>,

    /// PEM file with the client certificate for a rediss:// store that asks for one
    #[arg(long, value_name = "FILE", env = "FENCEPOST_STORE_CERT", value_parser = clap::value_parser!(OsString))]
    store_cert: Option<OsString>,

    /// PEM file with the private key of the client certificate
    #[arg(long, value_name = "FILE", env = "FENCEPOST_STORE_KEY", value_parser = clap::value_parser!(OsString))]
    store_key: Option<OsString>,

    /// User of the store, if its URL has none, with --store-password-file
    #[arg(
        long, value_name = "NAME", env = "FENCEPOST_STORE_USER", default_value = "", hide_default_value = true,
        value_parser = config::store_user
    )]
    store_user: String,

    /// File with the password of the store alone
    #[arg(long, value_name = "FILE", env = "FENCEPOST_STORE_PASSWORD_FILE", value_parser = clap::value_parser!(OsString))]
    store_password_file: Option<OsString>,
}

impl StoreArgs {
    /// Whether a store is named, where none has to be.
    pub(crate) fn is_given(&self) -> bool {
        self.store.as_ref().is_some_and(|store| !store.is_empty())
    }

    /// The name of the store.
    pub(crate) fn prefix(&self) -> &str {
        &self.store_prefix
    }

    /// The URLs with their files, which are checked. If there are several, each is that of a Redis.
    pub(crate) fn urls(&self) -> Result<Vec<NodeUrl>, Failure> {
        let urls = urls_in(self.store.as_deref().unwrap_or_default());
        let parsed = urls.iter().map(|url| NodeUrl::parse(url)).collect::<Result<Vec<_>, _>>();
        let parsed = parsed.and_then(|parsed| why_no_list(&urls).map_or(Ok(parsed), |why| Err(why.to_owned())));
        let urls = parsed.map_err(|why| Failure::new(COMMAND_LINE, format!("--store: {why}")))?;
        let file = |given: &Option<OsString>| given.as_ref().filter(|path| !path.is_empty()).map(PathBuf::from);
        let files = TlsFiles { ca: file(&self.store_ca), cert: file(&self.store_cert), key: file(&self.store_key) };
        if !files.is_empty() && !urls.iter().any(NodeUrl::tls) {
            let rule = "--store-ca, --store-cert and --store-key need a store with TLS: --store rediss://…";
            return Err(Failure::new(CONFIG, rule));
        }
        let password = file(&self.store_password_file);
        if password.is_none() && !self.store_user.is_empty() {
            let rule = "--store-user needs the file with its password as well: --store-password-file FILE";
            return Err(Failure::new(CONFIG, rule));
        }
        let with_files = |url: NodeUrl| {
            let url = url.tagged(&self.store_prefix);
            let url = if url.tls() { url.with_tls(files.clone())? } else { url };
            match &password {
                Some(file) => url.with_login(Login::new(&self.store_user, file)),
                None => Ok(url),
            }
        };
        urls.into_iter().map(with_files).collect::<Result<_, _>>().map_err(|NodeFileProblem { file, path, why }| {
            let flag = match file {
                NodeFile::Ca => "--store-ca",
                NodeFile::Cert => "--store-cert",
                NodeFile::Key => "--store-key",
                NodeFile::Password => "--store-password-file",
            };
            Failure::new(CONFIG, format!("{flag} = {path:?}: {why}"))
        })
    }
}
