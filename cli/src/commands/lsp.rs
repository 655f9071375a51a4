//! `lsp`: serves an editor.

use crate::args::LspArgs;
use crate::error::Result;
use crate::lsp::{Setting, serve};
use crate::options;

pub(super) fn lsp(args: &LspArgs) -> Result {
    let options = options::planning(&args.planning)?;
    serve(Setting { options, levels: args.levels.clone() })
}
