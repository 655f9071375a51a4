//! Options that a program leaves no room for: they are refused, not ignored.
//!
//! The alternative, a line below the answer as for dtypes that the chip has not, would come after
//! a search of minutes that was not the one asked for.

use super::candidate::Recompute;
use super::template::Template;
use super::{Refused, Request};

/// Options that somebody gave, and that are an error where they have no effect; what is there by
/// default never is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// The numbers of microbatches.
    pub microbatches: bool,
    /// What may be computed again.
    pub recompute: bool,
    /// An option of pipelines.
    pub of_pipelines: Option<&'static str>,
}

/// An error for options that no candidate would have.
pub(super) fn check(template: &Template<'_>, request: &Request) -> Result<(), Refused> {
    let unused = of_microbatches(template, request)
        .or_else(|| of_recompute(template, request))
        .or_else(|| of_pipelines(template, request));
    unused.map_or(Ok(()), |text| Err(Refused::Options(text)))
}

/// `--microbatches 4` without gradients and stages, or beside what the program has.
fn of_microbatches(template: &Template<'_>, request: &Request) -> Option<String> {
    let asks = request.given.microbatches && request.microbatches.iter().any(|&count| count > 1);
    if !asks || template.may_have_microbatches(&request.stages) {
        return None;
    }
    Some(if template.has_own_microbatches() {
        "--microbatches has no effect, since the program has its own; leave --microbatches out, or \
            release what the program has with --free"
            .to_owned()
    } else {
        "--microbatches is for gradients and for pipelines, and there are neither; leave \
            --microbatches out"
            .to_owned()
    })
}

/// `--recompute layers` without gradients or layers, or beside what the program has.
fn of_recompute(template: &Template<'_>, request: &Request) -> Option<String> {
    if !request.given.recompute || template.may_recompute() {
        return None;
    }
    let asks = request.recompute.iter().any(|&of| of != Recompute::Nothing);
    if template.has_own_checkpoint() {
        let text = "--recompute has no effect, since the program has `checkpoint`; leave \
            --recompute out, or release what the program has with --free";
        return Some(text.to_owned());
    }
    asks.then(|| {
        let lacks = if template.has_gradients() { "layers (`repeat`)" } else { "gradients" };
        format!(
            "--recompute is for gradients of layers, and the program has no {lacks}; leave \
                --recompute out"
        )
    })
}

/// `--schedules gpipe`, `--stages '1|2'` without layers.
fn of_pipelines(template: &Template<'_>, request: &Request) -> Option<String> {
    let option = request.given.of_pipelines.filter(|_| !template.can_be_staged())?;
    Some(format!(
        "{option} is for pipelines, and the program has no layers (`repeat`) that can be one; \
            leave {option} out"
    ))
}
