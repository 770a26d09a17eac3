//! `serve`: configures and starts the server, and handles signals.

use super::{
    exit::{CONFIG, Failure, NO, SIGNAL},
    port_file::PortFile,
};
use crate::{
    config::{
        Config, StoreUrl,
        options::{OPTIONS, SWITCH},
    },
    node::NodeUrl,
    server::{ListenError, Ports},
    telemetry::{self, FlushOnDrop},
};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use parking_lot::Mutex;
use std::{future::Future, io::Write, process, sync::Arc};
use tokio::signal::unix::{Signal, SignalKind, signal};

const PRINT_CONFIG: &str = "print_config";

/// The flags as text. The configuration parses them together with the file and the environment.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServeArgs {
    flags: Vec<(&'static str, String)>,
    print_config: bool,
}

impl Args for ServeArgs {
    fn augment_args(command: Command) -> Command {
        // The flags come from the table of options, so that none can be missing.
        let defaults = Config::default();
        let flags = OPTIONS.iter().map(|option| {
            let default = defaults.text_of(option.key).map(|text| format!(" [default: {text}]"));
            let help = format!("{} [env: {}]{}", option.help, option.variable(), default.unwrap_or_default());
            let flag = Arg::new(option.key).long(option.flag()).value_name(option.value_name).help(help);
            // Accept any text, because `Config::load` checks the values.
            let flag = flag.allow_negative_numbers(true);
            if option.value_name == SWITCH { flag.num_args(0..=1).default_missing_value("true") } else { flag }
        });
        let print = "Print the effective configuration as a TOML file for --config (a password as ***), and exit";
        command.args(flags).arg(Arg::new(PRINT_CONFIG).long("print-config").action(ArgAction::SetTrue).help(print))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ServeArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |key| matches.get_one::<String>(key).map(|text| (key, text.clone()));
        Ok(Self {
            flags: OPTIONS.iter().filter_map(|option| given(option.key)).collect(),
            print_config: matches.get_flag(PRINT_CONFIG),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Serves until a signal, or an operator's Drain, ends the server.
pub(super) async fn serve(args: ServeArgs) -> Result<(), Failure> {
    let config = Config::load(args.flags, &std::env::vars_os().collect(), |url| NodeUrl::parse(url).map(drop))
        .map_err(|e| Failure::new(CONFIG, e.to_string()))?;
    if args.print_config {
        std::io::stdout().lock().write_all(config.to_toml().as_bytes())?;
        return Ok(());
    }
    for url in config.store.urls() {
        // Reads their files, so that the server starts only if they can be used.
        crate::server::store_url(url, &config.store_tls, &config.store_login)
            .map_err(|error| Failure::new(CONFIG, error.to_string()))?;
    }
    let log = telemetry::init(&config.log).map_err(|error| Failure::new(CONFIG, error.to_string()))?;
    let log = Arc::new(Mutex::new(Some(log)));
    // Listen for signals before the port is open, so that no signal is lost.
    let shutdown =
        shutdown(Arc::clone(&log)).map_err(|error| Failure::new(NO, format!("cannot listen for signals: {error}")))?;
    config.port_file.as_deref().map_or(Ok(()), PortFile::prepare)?;
    let failure = |error: ListenError| cannot_listen(&config.listen, &error);
    let listeners = crate::server::bind(&config).await.map_err(failure)?;
    let admin_failure = |error: ListenError| cannot_listen(&config.admin_listen, &error);
    let admin = crate::server::bind_admin(&config).await.map_err(admin_failure)?;
    for listener in &admin {
        let addr = listener.local_addr()?;
        tracing::info!(%addr, "admin port open");
    }
    let faults_failure = |error: ListenError| cannot_listen(&"the address of --test-faults", &error);
    let faults = crate::server::bind_faults(&config).await.map_err(faults_failure)?;
    let addresses = listeners.addresses()?;
    let mut lines = addresses.clone();
    for listener in &faults {
        let addr = listener.local_addr()?;
        tracing::warn!(%addr, "test faults: whoever reaches this port can end leases and lose replies");
        lines.push(addr.to_string());
    }
    let port_file = config.port_file.as_deref().map(|path| PortFile::write(path, &lines)).transpose()?;
    if config.store == StoreUrl::Memory && listeners.is_reachable()? {
        tracing::warn!(
            advice = "start all servers of one lock service with the same --store redis://…, or ignore this for one",
            "the store is memory: other servers do not share its locks, and a restart loses them"
        );
    }
    for addr in addresses {
        tracing::info!(%addr, version = env!("CARGO_PKG_VERSION"), store = %config.store, "listening");
    }
    let served = crate::server::serve(config, Ports { api: listeners, admin, faults }, shutdown).await;
    drop(port_file);
    drop(log.lock().take());
    served.map_err(|error| Failure::new(NO, format!("the server failed: {error}")))
}

fn cannot_listen(address: &dyn std::fmt::Display, error: &ListenError) -> Failure {
    match error {
        ListenError::Config(error) => Failure::new(CONFIG, error.to_string()),
        ListenError::Socket { .. } => Failure::new(NO, format!("cannot listen on {address}: {error}")),
    }
}

/// Resolves at the first SIGTERM or SIGINT. At the second one the process writes its log and exits at once.
fn shutdown(log: Arc<Mutex<Option<FlushOnDrop>>>) -> std::io::Result<impl Future<Output = ()> + Send + 'static> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        let first = next(&mut terminate, &mut interrupt).await;
        tracing::info!(signal = first, "draining; a second signal ends the process at once");
        tokio::spawn(async move {
            let second = next(&mut terminate, &mut interrupt).await;
            tracing::warn!(signal = second, "ending the process at once");
            drop(log.lock().take());
            process::exit(i32::from(SIGNAL) + second);
        });
    })
}

/// Waits for either signal. Returns its number.
async fn next(terminate: &mut Signal, interrupt: &mut Signal) -> i32 {
    tokio::select! {
        _ = terminate.recv() => SignalKind::terminate().as_raw_value(),
        _ = interrupt.recv() => SignalKind::interrupt().as_raw_value(),
    }
}
