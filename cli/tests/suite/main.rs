//! The command as a process: a module a subcommand or subject.

mod build_tools;
mod check;
mod ci;
mod command;
mod common;
mod diff;
mod explain;
mod hardware;
mod watch;
