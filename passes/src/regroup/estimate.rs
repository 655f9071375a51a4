//! An estimate of the time of a term, at peak rates, on all devices alike. It knows no shardings
//! and no collectives; it only decides which terms are planned first.
//!
//! A product reads its factors and writes its result. Sums run in the kernel of a product that they
//! stand beside, so that they read only what is an operand of the term.

use shardwise_ir::ids::DimId;
use shardwise_ir::program::Program;

use super::site::Site;
use super::term::Term;

/// Seconds of a term.
pub(super) fn seconds(program: &Program, site: &Site, term: &Term) -> f64 {
    term.all().into_iter().map(|part| of_part(program, site, part)).sum()
}

/// Seconds of the last operation of a term.
fn of_part(program: &Program, site: &Site, term: &Term) -> f64 {
    let Some(parts) = term.parts() else { return 0.0 };
    let elements =
        |dims: &[DimId]| dims.iter().map(|&dim| program.dims[dim].size as f64).product::<f64>();
    let of = |term: &Term| elements(&term.dims(&site.dims));
    let read = parts
        .iter()
        .filter(|part| matches!(part, Term::Operand(_)) || (is_product(term) && is_product(part)));
    let written = if is_product(term) { of(term) } else { 0.0 };
    let dtype = program.values[site.operands[0].value].dtype;
    let bytes = (read.map(of).sum::<f64>() + written) * f64::from(dtype.bits()) / 8.0;
    let mut all: Vec<DimId> = parts.iter().flat_map(|part| part.dims(&site.dims)).collect();
    all.sort_unstable();
    all.dedup();
    let flops = if is_product(term) { 2.0 * elements(&all) } else { elements(&all) };
    let bandwidth = program.hardware.hbm_bandwidth.unwrap_or(f64::INFINITY);
    (flops / program.hardware.peak_flops(dtype)).max(bytes / bandwidth)
}

/// Whether a term is a product that sums over something.
fn is_product(term: &Term) -> bool {
    matches!(term, Term::Product { summed, .. } if !summed.is_empty())
}
