//! Ctrl-C: the first asks a command for its best result so far, the second ends it.

use shardwise::options::Cancellation;

use crate::error::{Error, Result};

/// What shells report of a command that Ctrl-C ended.
const INTERRUPTED: i32 = 130;

/// A flag that the first Ctrl-C sets.
pub(crate) fn on_ctrl_c() -> Result<Cancellation> {
    let cancellation = Cancellation::new();
    let flag = cancellation.clone();
    let set = ctrlc::set_handler(move || {
        if flag.is_cancelled() {
            std::process::exit(INTERRUPTED);
        }
        flag.cancel();
    });
    set.map_err(|error| Error::usage(format!("Ctrl-C cannot be handled: {error}")))?;
    Ok(cancellation)
}
