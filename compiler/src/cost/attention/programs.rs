//! Writes the program of each way to run an attention, as a person would write it.

use std::fmt::Write as _;

use shardwise_ir::ids::{DimId, ValueId};
use shardwise_ir::print;
use shardwise_ir::sharding::{AxisList, AxisRef};

use super::split::Found;

/// A way and its program, or why there is none.
pub(super) struct Way {
    pub(super) name: &'static str,
    pub(super) program: Result<String, String>,
}

/// All ways, the plainest first.
pub(super) fn ways(found: &Found<'_>) -> Vec<Way> {
    let (query, key) = (found.site.query_dim, found.site.key_dim);
    let pinned = |name, dim| Way {
        name,
        program: sequence_is_cut(found).map(|()| Sketch { found }.pinned(dim)),
    };
    let heads = Way {
        name: "heads",
        program: sequence_is_cut(found).and_then(|()| Ok(Sketch { found }.pinned(head(found)?))),
    };
    let ring =
        Way { name: "ring", program: sequence_is_cut(found).map(|()| Sketch { found }.ring()) };
    vec![pinned("gather", query), ring, heads, pinned("statistics", key)]
}

/// Whether the axes of the sequence divide queries and keys alike.
fn sequence_is_cut(found: &Found<'_>) -> Result<(), String> {
    let blocks = found.blocks();
    for dim in [found.site.query_dim, found.site.key_dim] {
        let others = parts(found, &found.others(dim));
        let (name, size) = found.length(dim);
        if !size.is_multiple_of(blocks.saturating_mul(others)) {
            return Err(format!("{name} = {size} is not divided by {}", blocks * others));
        }
    }
    Ok(())
}

/// The dimension that the axes of the sequence move to: one of the scores that they divide too, one
/// of the keys before one of queries alone.
fn head(found: &Found<'_>) -> Result<DimId, String> {
    let dims = |value: ValueId| found.program.values[value].dims.iter().copied();
    let site = found.site;
    let mut candidates: Vec<DimId> = dims(found.query)
        .filter(|dim| *dim != site.query_dim && !site.contracted.contains(dim))
        .collect();
    candidates.sort_by_key(|dim| !dims(found.key).any(|other| other == *dim));
    let divided = |dim: DimId| {
        found.program.dims[dim]
            .size
            .is_multiple_of(found.blocks().saturating_mul(parts(found, &found.others(dim))))
    };
    candidates.iter().copied().find(|&dim| divided(dim)).ok_or_else(|| {
        let sizes: Vec<String> = candidates
            .iter()
            .map(|&dim| found.length(dim))
            .map(|(name, size)| format!("{name}={size}"))
            .collect();
        format!("{} ways more divide none of {}", found.blocks(), sizes.join(", "))
    })
}

fn parts(found: &Found<'_>, axes: &[AxisRef]) -> u64 {
    axes.iter().map(|axis| axis.size(&found.program.mesh)).fold(1, u64::saturating_mul)
}

/// Writes programs about one attention: its values are `q`, `k`, `v` and `o`.
struct Sketch<'f, 'p> {
    found: &'f Found<'p>,
}

impl Sketch<'_, '_> {
    /// Queries, keys and values are inputs sharded along the sequence; the scores are sharded along
    /// `dim` instead, or in addition.
    fn pinned(&self, dim: DimId) -> String {
        let found = self.found;
        let scores = self.scores();
        let axes_of =
            |of: DimId| joined(&found.others(of), if of == dim { &found.axes } else { &[] });
        let scores: Vec<String> =
            scores.iter().map(|&of| self.split(self.name(of), &axes_of(of))).collect();
        let mut text = self.head(&[]);
        self.declare(&mut text, &|of| vec![self.split(self.name(of), &self.arriving(of))]);
        let _ = writeln!(
            text,
            "scores[{}] = q *{} k",
            scores.join(", "),
            self.names(&found.site.contracted)
        );
        let _ = writeln!(text, "p = softmax_{}(scores)", self.name(found.site.key_dim));
        let result =
            self.brackets(found.result, &|of| vec![self.split(self.name(of), &self.arriving(of))]);
        let _ = writeln!(text, "output o{result} = p *{} v", self.name(found.site.key_dim));
        text
    }

    /// Every device keeps its queries; keys and values are passed around the ring block by block,
    /// and a running softmax is rescaled when a larger maximum arrives.
    fn ring(&self) -> String {
        let found = self.found;
        let (query, key) = (found.site.query_dim, found.site.key_dim);
        let (block, queries, keys) = (self.fresh("Ring"), self.fresh("Tq"), self.fresh("Sk"));
        let blocks = found.blocks();
        let length = |dim: DimId| found.length(dim).1 / blocks;
        let mut text =
            self.head(&[(&block, blocks), (&queries, length(query)), (&keys, length(key))]);
        let dims = |of: DimId| match of {
            of if of == query || of == key => {
                let inner = if of == query { &queries } else { &keys };
                vec![self.split(&block, &found.axes), self.split(inner, &found.others(of))]
            }
            of => vec![self.split(self.name(of), &self.arriving(of))],
        };
        self.declare(&mut text, &dims);
        let contracted = self.names(&found.site.contracted);
        let total = |dim: &DimId| {
            found.program.values[found.query].dims.contains(dim)
                && !found.site.contracted.contains(dim)
        };
        let added: Vec<DimId> = found.program.values[found.result]
            .dims
            .iter()
            .copied()
            .filter(|dim| !total(dim))
            .collect();
        let added = self.names(&added);
        let _ = write!(
            text,
            "top = sum_{{{contracted}}}(q) * 0.0 - 1e30\n\
             total = sum_{{{contracted}}}(q) * 0.0\n\
             acc = broadcast_{{{added}}}(total)\n\
             repeat ring={blocks} {{\n  \
               carry k, v, top, total, acc\n  \
               scores = q *{contracted} k\n  \
               best = maximum(top, max_{keys}(scores))\n  \
               p = exp(scores - best)\n  \
               fade = exp(top - best)\n  \
               total = total * fade + sum_{keys}(p)\n  \
               acc = acc * fade + p *{keys} v\n  \
               top = best\n  \
               k = roll_{block}(k)\n  \
               v = roll_{block}(v)\n\
             }}\n\
             output o{} = acc / total\n",
            self.brackets(found.result, &dims),
        );
        text
    }

    /// Hardware, mesh, and the dimensions that the values have, with `more` of them.
    fn head(&self, more: &[(&str, u64)]) -> String {
        let found = self.found;
        let mut dims: Vec<DimId> = Vec::new();
        for &dim in [found.query, found.key, found.value]
            .iter()
            .flat_map(|&value| &found.program.values[value].dims)
        {
            let is_cut =
                !more.is_empty() && [found.site.query_dim, found.site.key_dim].contains(&dim);
            if !dims.contains(&dim) && !is_cut {
                dims.push(dim);
            }
        }
        let sizes = dims
            .iter()
            .map(|&dim| found.length(dim))
            .chain(more.iter().map(|&(name, size)| (name.to_owned(), size)));
        let sizes: Vec<String> = sizes.map(|(name, size)| format!("{name}={size}")).collect();
        format!("{}\ndim {}\n", found.header, sizes.join(", "))
    }

    fn declare(&self, text: &mut String, dims: &dyn Fn(DimId) -> Vec<String>) {
        let found = self.found;
        for (name, value) in [("q", found.query), ("k", found.key), ("v", found.value)] {
            let dtype = found.program.values[value].dtype.name();
            let _ = writeln!(text, "input {name}: {dtype}{}", self.brackets(value, dims));
        }
    }

    fn brackets(&self, value: ValueId, dims: &dyn Fn(DimId) -> Vec<String>) -> String {
        let dims: Vec<String> =
            self.found.program.values[value].dims.iter().flat_map(|&dim| dims(dim)).collect();
        format!("[{}]", dims.join(", "))
    }

    /// Dimensions of the scores: those of the queries and the keys, without what is summed.
    fn scores(&self) -> Vec<DimId> {
        let found = self.found;
        let kept = |value: ValueId| {
            found.program.values[value]
                .dims
                .iter()
                .copied()
                .filter(|dim| !found.site.contracted.contains(dim))
        };
        let mut dims: Vec<DimId> = kept(found.query).collect();
        dims.extend(
            kept(found.key).filter(|dim| !found.program.values[found.query].dims.contains(dim)),
        );
        dims
    }

    /// The axes along a dimension of the inputs (queries, keys and values) and of the output.
    fn arriving(&self, dim: DimId) -> AxisList {
        let found = self.found;
        let sequence: &[AxisRef] = if [found.site.query_dim, found.site.key_dim].contains(&dim) {
            &found.axes
        } else {
            &[]
        };
        joined(&found.others(dim), sequence)
    }

    fn split(&self, name: &str, axes: &[AxisRef]) -> String {
        if axes.is_empty() {
            name.to_owned()
        } else {
            format!("{name}_{}", print::axis_word(&self.found.program.mesh, axes))
        }
    }

    fn name(&self, dim: DimId) -> &str {
        &self.found.program.dims[dim].name
    }

    fn names(&self, dims: &[DimId]) -> String {
        dims.iter().map(|&dim| self.name(dim)).collect::<Vec<_>>().join(",")
    }

    /// An unused name for a dimension.
    fn fresh(&self, like: &str) -> String {
        let mut name = like.to_owned();
        while self.found.program.dims.iter().any(|dim| dim.name == name) {
            name.push('\'');
        }
        name
    }
}

fn joined(first: &[AxisRef], then: &[AxisRef]) -> AxisList {
    first.iter().chain(then).copied().collect()
}
