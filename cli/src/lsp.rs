//! The language server: programs that editors have open, over the Language Server Protocol.
//!
//! One thread owns all programs and answers in the order of the messages, so that an answer is
//! always about the text that the editor had when it asked. Errors are found there, within a few
//! milliseconds. Lints and plans take longer: they are computed in the background, of the newest
//! text only. An asynchronous server would answer requests concurrently, and each answer would have
//! to say which text it is about.

mod background;
mod convert;
mod dispatch;
mod documents;
mod features;
mod server;
mod transport;

use std::io;
use std::sync::mpsc::channel;
use std::thread;

use gen_lsp_types::{InitializeParams, InitializeResult, ServerInfo};
use lsp_server::{Connection, Message, ProtocolError};
use shardwise::Options;

use crate::args::check::LevelArgs;
use crate::error::{Error, Result};
use crate::exit_status::ExitStatus;
use background::Analysis;
use server::Server;

/// What the server is started with.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// Options of planning and checking.
    pub(crate) options: Options,
    /// Which lints run.
    pub(crate) levels: LevelArgs,
}

/// What the main thread waits for.
enum Event {
    /// Of the editor.
    Message(Message),
    /// Of a background thread.
    Analysis(Analysis),
    /// The editor closed the connection.
    Closed,
}

/// Serves the editor on standard input and output until it ends.
pub(crate) fn serve(setting: Setting) -> Result {
    let (connection, threads) = transport::stdio();
    let is_shut_down = run(&connection, setting)?;
    // The thread that writes ends when nobody can send any more.
    drop(connection);
    let failure = |text: String| Error::Message(text, ExitStatus::Failure);
    threads.join().map_err(|error| match error.kind() {
        // The thread that reads ended at it.
        io::ErrorKind::InvalidData => {
            failure(format!("a message of the editor cannot be read: {error}"))
        }
        _ => Error::Io(error),
    })?;
    if is_shut_down {
        Ok(())
    } else {
        Err(failure("the editor ended the connection without `shutdown`".to_owned()))
    }
}

/// Answers until the connection ends; whether the editor asked to shut down before.
fn run(connection: &Connection, setting: Setting) -> Result<bool> {
    let (id, params) = match connection.initialize_start() {
        // Why it ended, the thread that reads says.
        Err(error) if error.channel_is_disconnected() => return Ok(false),
        started => started.map_err(broken)?,
    };
    let params: InitializeParams = serde_json::from_value(params)
        .map_err(|error| Error::usage(format!("the editor's first message: {error}")))?;
    let result = InitializeResult {
        capabilities: features::capabilities(),
        server_info: Some(ServerInfo {
            name: "shardwise".to_owned(),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        }),
    };
    let result = serde_json::to_value(result)
        .map_err(|error| Error::usage(format!("the server's first message: {error}")))?;
    connection.initialize_finish(id, result).map_err(broken)?;
    let (events, received) = channel();
    let messages = connection.receiver.clone();
    let reader = events.clone();
    // It ends with the connection, or with the process.
    thread::spawn(move || {
        let mut messages = messages.into_iter();
        while messages.next().is_some_and(|it| reader.send(Event::Message(it)).is_ok()) {}
        let _ = reader.send(Event::Closed);
    });
    let sender = connection.sender.clone();
    // An editor that is gone reads nothing.
    let send = move |message| drop(sender.send(message));
    let mut server = Server::new(send, &params, setting, &events);
    for event in received {
        match event {
            Event::Message(Message::Request(request)) => server.request(request),
            Event::Message(Message::Notification(notification)) => {
                if notification.method == "exit" {
                    break;
                }
                server.notification(notification);
            }
            Event::Message(Message::Response(_)) => {}
            Event::Analysis(analysis) => server.analyzed(analysis),
            Event::Closed => break,
        }
    }
    Ok(server.is_shut_down())
}

fn broken(error: ProtocolError) -> Error {
    Error::usage(format!("the editor does not speak the Language Server Protocol: {error}"))
}
