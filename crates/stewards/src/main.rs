//! The one binary: daemon, command line, demo, and, under other names or hidden
//! verbs, the `gh` of a thread, the twin and the scripted agent.

mod agents;
mod background;
mod backup;
mod cli;
mod client;
mod commands;
mod demo;
mod files;
mod gh;
mod live_check;
mod missed;
mod out;
mod paths;
mod serve;
mod settings;
mod twin;

use clap::Parser;
use clap::error::ErrorKind;
use std::process::ExitCode;

/// A verb without anything says what it can.
const HELP: ErrorKind = ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;

fn main() -> ExitCode {
    let called_as = std::env::args_os().next().map(std::path::PathBuf::from);
    let name = called_as.as_deref().and_then(|p| p.file_name()).and_then(|n| n.to_str()).unwrap_or("stewards");
    if name == "gh" {
        return out::finish(gh::run(std::env::args().skip(1).collect()), false);
    }
    let mut args: Vec<std::ffi::OsString> = std::env::args_os().collect();
    // Under the name `bb`, `bb stewards X` is `stewards X`.
    if name == "bb" && args.get(1).is_some_and(|a| a == "stewards") {
        args.remove(1);
    }
    let json = args.iter().any(|a| a == "--json");
    let ran = match cli::Cli::try_parse_from(args) {
        Ok(parsed) => commands::run(parsed),
        // Help and versions are no errors.
        Err(asked) if !asked.use_stderr() || asked.kind() == HELP => asked.exit(),
        Err(error) => Err(out::bad_arguments(&error).into()),
    };
    out::finish(ran, json)
}
