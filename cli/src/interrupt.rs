//! Ctrl-C: during a search it asks for the best result so far; otherwise, and the second time, it
//! ends the command.

use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use shardwise::options::Cancellation;

use crate::error::{Error, Result};

/// What shells report of a command that Ctrl-C ended.
const INTERRUPTED: i32 = 130;

/// The flag of the search that runs; Ctrl-C takes it.
static RUNNING: Mutex<Option<Cancellation>> = Mutex::new(None);

fn running() -> MutexGuard<'static, Option<Cancellation>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A flag for a search that begins now, which the next Ctrl-C sets.
pub(crate) fn on_ctrl_c() -> Result<Cancellation> {
    static HANDLED: Once = Once::new();
    let mut set = Ok(());
    HANDLED.call_once(|| {
        set = ctrlc::set_handler(|| match running().take() {
            Some(flag) => flag.cancel(),
            None => std::process::exit(INTERRUPTED),
        });
    });
    set.map_err(|error| Error::usage(format!("Ctrl-C cannot be handled: {error}")))?;
    let flag = Cancellation::new();
    *running() = Some(flag.clone());
    Ok(flag)
}

/// The search has ended.
pub(crate) fn search_is_over() {
    *running() = None;
}
