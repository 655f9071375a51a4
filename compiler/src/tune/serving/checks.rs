//! What the programs of both phases have to be, and what they do not say of the requests.

use shardwise_ir::Role;
use shardwise_ir::program::Program;
use shardwise_passes::serving::{Serving, read_caches};

use super::Serve;
use crate::cost::held;
use crate::display::units;
use crate::options::Options;
use crate::tune::template::Template;
use crate::tune::{Refused, Request};

/// How many times the parameters of the one phase the other one may have.
const MOST_PARAMETERS: f64 = 1.5;

/// An error where both phases are the same program: one of them is then no such phase.
fn refuse_one_program(serve: &Serve) -> Result<(), Refused> {
    let [(prefill, text), (decode, of_decode)] = [&serve.prefill, &serve.decode];
    if text != of_decode {
        return Ok(());
    }
    let both = if prefill == decode {
        format!("`{prefill}` is the program and the prefill")
    } else {
        format!("`{prefill}` and `{decode}` are the same program")
    };
    Err(Refused::Options(format!(
        "{both}: the program computes the next token of each sequence, and --prefill names another \
            one of the same model, which reads whole prompts; `import hf CONFIG --for decode` and \
            `--for prefill` write both"
    )))
}

/// What follows from the programs of both phases.
pub(super) struct Checked {
    /// Bytes of a device that runs both; infinite without a limit.
    pub(super) capacity_bytes: f64,
    pub(super) remarks: Vec<String>,
}

/// The programs of both phases; an error where one of them cannot be such a phase.
pub(super) fn checked(
    serve: &Serve,
    request: &Request,
    options: &Options,
) -> Result<Checked, Refused> {
    refuse_one_program(serve)?;
    let mut least = f64::INFINITY;
    let mut programs = Vec::new();
    for (name, text) in [&serve.prefill, &serve.decode] {
        let template = Template::new(name, text, request, options)?;
        if template.has_gradients() {
            return Err(Refused::Options(format!(
                "`{name}` has gradients, and neither a prefill nor a decode step has: leave \
                    `backward` out"
            )));
        }
        programs.push(template.program().map_err(Refused::Program)?);
        least = template.capacity_bytes()?.map_or(least, |bytes| bytes.min(least));
    }
    let [prefill, decode] = [&programs[0], &programs[1]];
    refuse_swapped(serve, prefill, decode)?;
    refuse_other_model(serve, prefill, decode)?;
    let remarks = beyond_caches(serve, prefill, decode).into_iter().collect();
    Ok(Checked { capacity_bytes: least, remarks })
}

/// An error where the prefill reads caches and the decode step none.
fn refuse_swapped(serve: &Serve, prefill: &Program, decode: &Program) -> Result<(), Refused> {
    if read_caches(prefill).is_empty() || !read_caches(decode).is_empty() {
        return Ok(());
    }
    let [(prefill, _), (decode, _)] = [&serve.prefill, &serve.decode];
    Err(Refused::Options(format!(
        "`{prefill}` reads caches (`state`), and `{decode}` none: the prefill follows --prefill, \
            and the decode step is the program"
    )))
}

/// An error where one phase has many more parameters than the other. A head may be left out of a
/// prefill, and weights be joined for a decode step, so that they need not be equal.
fn refuse_other_model(serve: &Serve, prefill: &Program, decode: &Program) -> Result<(), Refused> {
    let counts = [prefill, decode].map(|program| held(program, Role::Param).elements);
    let [less, more] = [counts[0].min(counts[1]), counts[0].max(counts[1])];
    if more <= MOST_PARAMETERS * less {
        return Ok(());
    }
    let words = counts.map(units::count);
    Err(Refused::Options(format!(
        "`{}` has {} parameters and `{}` {}: --prefill names the prefill of the same model",
        serve.prefill.0, words[0], serve.decode.0, words[1]
    )))
}

/// That requests are longer than the caches, whose length is what every decode step reads.
fn beyond_caches(serve: &Serve, prefill: &Program, decode: &Program) -> Option<String> {
    let of_prompts = Serving::of(prefill).ok()?;
    let prompts = prefill.dims[of_prompts.batch].size as f64;
    let prompt = of_prompts.tokens(prefill) / prompts;
    let of_step = Serving::of(decode).ok()?;
    let length = |cache| {
        let sizes = of_step.context(decode, cache).into_iter();
        sizes.map(|dim| decode.dims[dim].size as f64).product::<f64>()
    };
    // Layers with a window have shorter ones.
    let longest = read_caches(decode).into_iter().map(length).reduce(f64::max)?;
    let request = prompt + serve.tokens as f64;
    (request > longest).then(|| {
        format!(
            "prompt and answer have {request} tokens, and the caches of the decode step hold \
                {longest}: its time and memory are those of full caches"
        )
    })
}
