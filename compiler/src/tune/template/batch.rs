//! The batch of a program, in other sizes: of a dimension, or of a product of dimensions, such as
//! groups of tokens that share the slots of experts. There the first factor grows.

use shardwise_grammar::ast::Statement;
use shardwise_ir::Role;
use shardwise_ir::program::Program;
use shardwise_ir::rearrange::atoms;

use super::{Template, dims};
use crate::tune::{Refused, Request};

/// The factor of a batch that grows with it.
pub(super) struct Grows {
    /// The name of the factor.
    name: String,
    /// How many of the batch there are for each of it.
    unit: u64,
}

impl Template<'_> {
    /// The batch: the first dimension of an input that no parameter has.
    pub(super) fn batch_dimension(&self) -> Option<String> {
        let declared = |of: &'static [Role]| {
            self.statements().filter_map(move |statement| match statement {
                Statement::Declare(role, tensors) if of.contains(role) => Some(tensors),
                _ => None,
            })
        };
        let of_params: Vec<&str> =
            declared(&[Role::Param, Role::FrozenParam]).flat_map(|of| dims(of)).collect();
        let mut of_inputs = declared(&[Role::Input]).flat_map(|of| dims(of));
        of_inputs.find(|dim| !of_params.contains(dim)).map(str::to_owned)
    }

    /// The factor that grows with the batch, where that is a product.
    pub(super) fn growing_factor(&self) -> Option<Grows> {
        let program = self.program().ok()?;
        let batch = program.dims.position(|dim| self.is_batch(&dim.name))?;
        let first = *atoms(&program.dims, batch).first().filter(|&&first| first != batch)?;
        let (whole, of_first) = (program.dims[batch].size, program.dims[first].size);
        Some(Grows { name: program.dims[first].name.clone(), unit: whole / of_first })
    }

    /// The size that a dimension has to get for a batch of another size.
    pub(in crate::tune) fn size_for_batch(&self, dim: &str, batch: u64) -> Option<u64> {
        match &self.grows {
            Some(grows) => (grows.name == dim).then_some(batch / grows.unit),
            None => self.is_batch(dim).then_some(batch),
        }
    }

    /// Whether this dimension is the batch.
    pub(in crate::tune) fn is_batch(&self, dim: &str) -> bool {
        self.batch.as_deref() == Some(dim)
    }

    /// The sizes of the batch that the program can have, and why others are left out.
    pub(in crate::tune) fn possible_batches(
        &self,
        request: &Request,
    ) -> Result<(Vec<u64>, Vec<String>), Refused> {
        let asked = &request.batches;
        let Some(name) = self.batch.as_ref().filter(|_| !asked.is_empty()) else {
            return if asked.is_empty() { Ok((Vec::new(), Vec::new())) } else { Err(no_batch()) };
        };
        let Some(grows) = &self.grows else { return Ok((asked.clone(), Vec::new())) };
        let is_whole = |&&batch: &&u64| batch.is_multiple_of(grows.unit);
        let possible: Vec<u64> = asked.iter().filter(is_whole).copied().collect();
        let others = asked.iter().filter(|batch| !is_whole(batch));
        let left_out: Vec<String> = others
            .map(|batch| {
                format!(
                    "a batch of {batch} is left out: `{name}` is a product whose factor `{}` \
                        grows, in steps of {}",
                    grows.name, grows.unit
                )
            })
            .collect();
        match (&possible[..], left_out.first()) {
            ([], Some(why)) => Err(Refused::Options(format!(
                "--batch leaves nothing to plan: {why}; write multiples of {}",
                grows.unit
            ))),
            _ => Ok((possible, left_out)),
        }
    }

    /// The size of the batch in a program of this template.
    pub(in crate::tune) fn batch_of(&self, program: &Program) -> Option<u64> {
        let own = self.options.dims.iter().map(|dim| (&dim.name, dim.size));
        let declared = program.dims.iter().map(|dim| (&dim.name, dim.size));
        let batch = self.batch.as_ref()?;
        own.chain(declared).find(|(name, _)| *name == batch).map(|(_, size)| size)
    }
}

fn no_batch() -> Refused {
    Refused::Options(
        "--batch varies the first dimension of an input that no param has, and this program has \
            none; write the sizes with --dim"
            .to_owned(),
    )
}
