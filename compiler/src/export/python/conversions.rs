//! Conversions around local operations where a framework computes in another type than the plan:
//! operands of one type and a wider one, functions of fractions on integers, sums of integers.

use shardwise_ir::dtype::DType;

use super::super::json::{Operation, StepJson};
use super::super::walk::Result;
use super::expression::Expressions;

impl Expressions<'_> {
    /// A local step, in the type that the plan has for its result.
    pub(super) fn local(&mut self, step: &StepJson, of: &[String]) -> Result {
        let planned = self.dtype_of(&step.value).to_owned();
        let text = if self.makes_fractions(step, &planned) {
            let of = self.as_fractions(step, of, &planned)?;
            self.computed(step, &of)?
        } else {
            self.computed(step, of)?
        };
        if !(self.is_promoted_otherwise(step, &planned) || self.is_widened(step, &planned)) {
            return Ok(text);
        }
        let dtype = self.dtype(&planned)?;
        Ok(self.dialect.cast(&format!("({text})"), &dtype))
    }

    /// Whether a step makes fractions of integers alone: not every function of a framework does.
    fn makes_fractions(&self, step: &StepJson, planned: &str) -> bool {
        let is_function = matches!(
            &step.operation,
            Some(Operation::Map { .. } | Operation::Composite { .. } | Operation::Reduce { .. })
        );
        let has_fractions =
            step.operands.iter().any(|of| float(self.dtype_of(&of.value)).is_some());
        is_function && !has_fractions && float(planned).is_some()
    }

    /// The operands in the type of the result, but for the mask of a selection.
    fn as_fractions(
        &mut self,
        step: &StepJson,
        of: &[String],
        planned: &str,
    ) -> Result<Vec<String>> {
        let is_selection = matches!(
            &step.operation,
            Some(Operation::Map { function, .. }) if function == "select"
        );
        let dtype = self.dtype(planned)?;
        let converted = of.iter().enumerate().map(|(place, of)| match place {
            0 if is_selection => of.clone(),
            _ => self.dialect.cast(of, &dtype),
        });
        Ok(converted.collect())
    }

    /// Whether a function of several types of fractions has the widest, and the plan another.
    fn is_promoted_otherwise(&self, step: &StepJson, planned: &str) -> bool {
        let is_computed = match &step.operation {
            Some(Operation::Map { .. }) => true,
            Some(Operation::Einsum { contracted }) => contracted.is_empty(),
            _ => false,
        };
        let of: Option<Vec<DType>> =
            step.operands.iter().map(|of| float(self.dtype_of(&of.value))).collect();
        let is_other = of.zip(float(planned)).is_some_and(|(of, planned)| {
            let widest = of.iter().map(|dtype| dtype.bits()).max();
            of.iter().any(|dtype| *dtype != planned && Some(dtype.bits()) == widest)
        });
        is_computed && is_other
    }

    /// Whether a framework sums or counts in wider integers than the plan.
    fn is_widened(&self, step: &StepJson, planned: &str) -> bool {
        let is_counted = match &step.operation {
            Some(Operation::Reduce { function, .. }) => function == "sum",
            Some(Operation::Along { .. }) => true,
            _ => false,
        };
        let is_integer = DType::from_name(planned)
            .is_some_and(|dtype| !dtype.is_float() && dtype != DType::Bool);
        is_counted && is_integer && self.dialect.sums_of_integers() != Some(planned)
    }
}

/// A type of fractions.
fn float(name: &str) -> Option<DType> {
    DType::from_name(name).filter(|dtype| dtype.is_float())
}
