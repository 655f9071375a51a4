//! Brackets: dimensions, subscripts, and unreduced axes.

use crate::codes::{names, sharding as codes, syntax};
use shardwise_grammar::ast::{DimUse, Layout, Subscript};
use shardwise_grammar::span::{Name, Span};

use super::Resolver;
use crate::ids::{AxisId, DimId, ValueId};
use crate::program::{Dim, OpKind, Operand, Value};
use crate::sharding::{AxisList, AxisRef, DimPin, Pin, Reduction, Unreduced};
use crate::{Diag, suggest};

/// The largest number of dimensions of a value, which bounds all work per dimension.
const MOST_DIMS: usize = 64;

impl Resolver<'_> {
    /// The dimension called `name`, or an error.
    pub(super) fn dim(&mut self, name: &Name) -> Option<DimId> {
        if let Some(dim) = self.dim_names.get(&name.node).copied().or_else(|| self.primed(name)) {
            return Some(dim);
        }
        let is_reported = |name: &str| self.bad_dims.contains(name);
        let base = name.node.trim_end_matches('\'');
        if self.mesh.named(&name.node).is_some() && !is_reported(&name.node) {
            self.axis_as_dim(name);
        } else if !is_reported(&name.node) && !is_reported(base) {
            let is_below = self.declared_dims.contains(name.node.as_str());
            let (when, label) =
                if is_below { (" yet", "declared below") } else { ("", "not declared") };
            let message = format!("dimension `{}` has no size{when}", name.node);
            let diag = Diag::error(names::UNKNOWN_DIM, message, name.span, label);
            self.searches += 1;
            let searched = (self.searches <= super::MOST_SEARCHES)
                .then(|| self.dim_names.keys().map(String::as_str));
            let near = suggest::nearest(&name.node, searched.into_iter().flatten())
                .map(|near| format!("did you mean `{near}`?"));
            let declare = || {
                format!(
                    "declare it: `dim {}=4096` (or --dim {}=4096 for an expression)",
                    name.node, name.node
                )
            };
            let help = self.dim_with_axes(&name.node).or_else(|| self.joined(&name.node));
            let help =
                help.or_else(|| self.looked_up(&name.node)).or_else(|| self.later(&name.node));
            let help = help.or(near);
            let help = help.unwrap_or_else(declare);
            self.error(diag.help(help));
            self.bad_dims.insert(name.node.clone());
        }
        None
    }

    /// The help for `sum_B_X(x)`, where a subscript names the dimension with its axes.
    fn dim_with_axes(&self, name: &str) -> Option<String> {
        let (dim, axes) = name.split_once('_')?;
        (self.dim_names.contains_key(dim) && self.are_axes(axes)).then(|| {
            format!("write `_{dim}` alone: axes stand in the brackets of values, as in `[{name}]`")
        })
    }

    /// The help for `In[BX, D]`, where a dimension and its axes have nothing between them.
    fn joined(&self, name: &str) -> Option<String> {
        let splits = name.char_indices().skip(1).map(|(at, _)| name.split_at(at));
        let mut both =
            splits.filter(|(dim, axes)| self.dim_names.contains_key(*dim) && self.are_axes(axes));
        both.next().map(|(dim, axes)| format!("axes follow a `_`: write `{dim}_{axes}`"))
    }

    /// The help for `E[ids]`, where a value stands in brackets.
    fn looked_up(&self, name: &str) -> Option<String> {
        self.value_names.contains_key(name).then(|| {
            format!(
                "`{name}` is a value: the rows of a table that it names are `take_V(E, {name})`"
            )
        })
    }

    /// The help for `dim H=D/8, D=512`.
    fn later(&self, name: &str) -> Option<String> {
        self.declared_dims
            .contains(name)
            .then(|| format!("sizes are read in order: declare `{name}` before this"))
    }

    /// Whether a word is an axis, or several with names of a letter.
    fn are_axes(&self, word: &str) -> bool {
        let is_axis = |axis: &str| self.mesh.named(axis).is_some();
        let mut letters = word.chars();
        !word.is_empty() && (is_axis(word) || letters.all(|axis| is_axis(&axis.to_string())))
    }

    /// `In[B_X,Y, D]`: an axis between the commas of brackets.
    fn axis_as_dim(&mut self, name: &Name) {
        let axis = &name.node;
        let message = format!("`{axis}` is a mesh axis, not a dimension");
        let diag = Diag::error(names::UNKNOWN_DIM, message, name.span, "an axis");
        let diag = self.mesh_span.into_iter().fold(diag, |diag, mesh| diag.and(mesh, "the mesh"));
        let other = self.mesh.axes.iter().map(|other| &other.name).find(|other| *other != axis);
        let several = other.map_or_else(String::new, |other| {
            format!("; several split it together: `B_{{{other},{axis}}}`")
        });
        let help = format!("axes follow a dimension: `B_{axis}`{several}");
        self.error(diag.help(help));
        self.bad_dims.insert(name.node.clone());
    }

    /// `D'` without a declaration of its own: a dimension of the size and order of `D`.
    fn primed(&mut self, name: &Name) -> Option<DimId> {
        let base = name.node.trim_end_matches('\'');
        let base = self.dims[*self.dim_names.get(base)?].clone();
        let dim = Dim { name: name.node.clone(), factors: Vec::new(), span: name.span, ..base };
        let id = self.dims.push(dim);
        self.dim_names.insert(name.node.clone(), id);
        Some(id)
    }

    /// Reports a dimension whose name also reads as another one that is split: `d_ff`, where `d`
    /// is a dimension and `ff` an axis. Plans would not read back as they are printed.
    pub(super) fn has_one_reading(&mut self, dim: &Dim) {
        let readings = self.dims.iter().find_map(|other| {
            let (shorter, longer) =
                if other.name.len() < dim.name.len() { (other, dim) } else { (dim, other) };
            let rest = longer.name.strip_prefix(&shorter.name)?.strip_prefix('_')?;
            let begins = |axis: &str| {
                axis.strip_prefix(rest).is_some_and(|more| more.is_empty() || more.starts_with('_'))
            };
            let is_subscript =
                self.axes_of_word(rest).is_some() || self.mesh.all_names().into_iter().any(begins);
            is_subscript.then(|| (shorter.clone(), longer.clone(), rest.to_owned()))
        });
        let Some((shorter, longer, rest)) = readings else { return };
        let message = format!(
            "`{0}` has two readings: the dimension `{0}`, and `{1}_{{{rest}}}`, which is `{1}` \
                split over `{rest}`",
            longer.name, shorter.name
        );
        let diag = Diag::error(syntax::BAD_DIM, message, longer.span, "this dimension")
            .and(shorter.span, "and this one");
        let diag = self.mesh_span.into_iter().fold(diag, |diag, mesh| diag.and(mesh, "the mesh"));
        self.error(diag.help("give one of the dimensions, or the axis, another name"));
    }

    /// The axis called `name`, or an error.
    pub(super) fn axis(&mut self, name: &Name) -> Option<AxisId> {
        let found = self.mesh.find(&name.node);
        match self.mesh.named(&name.node) {
            Some(parts) if found.is_none() => self.whole_axis(name, &parts),
            None => self.unknown_axis(name),
            Some(_) => {}
        }
        found
    }

    /// Reports an axis in parts where one axis has to be named.
    fn whole_axis(&mut self, name: &Name, parts: &[AxisId]) {
        let message = format!("`{}` is used in parts, and one axis is needed here", name.node);
        let diag = Diag::error(codes::UNKNOWN_AXIS, message, name.span, "several axes");
        let diag = self.mesh_span.into_iter().fold(diag, |diag, mesh| diag.and(mesh, "the mesh"));
        let parts: Vec<String> =
            parts.iter().map(|&part| format!("`{}`", self.mesh.axes[part].name)).collect();
        self.error(diag.help(format!("name one of its parts: {}", parts.join(" or "))));
    }

    fn unknown_axis(&mut self, name: &Name) {
        if self.mesh_failed || !self.bad_axes.insert(name.node.clone()) {
            return;
        }
        if self.mesh.axes.is_empty() {
            // One mistake: without a mesh, every axis is unknown.
            self.mesh_failed = true;
        }
        let message = format!("`{}` is not an axis of the mesh", name.node);
        let mut diag = Diag::error(codes::UNKNOWN_AXIS, message, name.span, "unknown axis");
        let axes = self.mesh.all_names();
        if let Some(span) = self.mesh_span {
            diag = diag.and(span, "the mesh");
        }
        let help = match (suggest::nearest(&name.node, axes.iter().copied()), axes.is_empty()) {
            (Some(near), _) => format!("did you mean `{near}`?"),
            (None, true) => format!("declare the mesh: `mesh {}=4`", name.node),
            (None, false) => format!("the axes are {}", axes.join(", ")),
        };
        self.error(diag.help(self.declare_parts(&name.node).unwrap_or(help)));
    }

    /// How to declare the part `X.0` of an axis that is used whole.
    fn declare_parts(&self, part: &str) -> Option<String> {
        let (whole, number) = part.rsplit_once('.')?;
        let axis = &self.mesh.axes[self.mesh.find(whole)?];
        number.parse::<usize>().ok()?;
        let least = (2..axis.size).take(1 << 16).find(|&least| axis.size.is_multiple_of(least))?;
        Some(format!(
            "declare the parts of `{whole}`: `mesh {whole}={} as {}x{least}`",
            axis.size,
            axis.size / least
        ))
    }

    /// The axes that a word names: itself, if declared, else its letters.
    pub(super) fn axes_of_word(&self, word: &str) -> Option<Vec<AxisId>> {
        if let Some(axes) = self.mesh.named(word) {
            return Some(axes);
        }
        let mut letter = [0; 4];
        word.chars()
            .map(|c| self.mesh.named(c.encode_utf8(&mut letter)))
            .collect::<Option<Vec<_>>>()
            .filter(|letters| letters.len() > 1)
            .map(|letters| letters.concat())
    }

    pub(super) fn axis_words(&mut self, words: &[Name]) -> Option<AxisList> {
        let mut axes = AxisList::new();
        let mut complete = true;
        for word in words {
            if let Some(found) = self.axes_of_word(&word.node) {
                axes.extend(found.into_iter().map(AxisRef::whole));
            } else {
                self.unknown_axis(word);
                complete = false;
            }
        }
        complete.then_some(axes)
    }

    /// Brackets with all their constraints checked: known names, each dimension and each axis once,
    /// one kind of reduction, sizes that divide.
    pub(super) fn layout(&mut self, layout: &Layout) -> Option<(Vec<DimId>, Pin)> {
        if let Some(over) = layout.dims.get(MOST_DIMS) {
            let message = format!(
                "{} dimensions are more than the {MOST_DIMS} that a value may have",
                layout.dims.len()
            );
            self.error(
                Diag::error(names::TOO_MANY_DIMS, message, over.span, "one too many")
                    .help("declare one dimension for several: `dim N=K*G`"),
            );
            return None;
        }
        let mut dims = Vec::new();
        let mut pins = Vec::new();
        let mut complete = true;
        for written in &layout.dims {
            let dim = self.dim(&written.name);
            let axes = match &written.subscript {
                Subscript::Whole => Some(DimPin::Exactly(AxisList::new())),
                Subscript::Open => Some(DimPin::open()),
                Subscript::First(words) => self.axis_words(words).map(DimPin::First),
                Subscript::Axes(words) => self.axis_words(words).map(DimPin::Exactly),
            };
            match (dim, axes) {
                (Some(dim), Some(pin)) if !dims.contains(&dim) => {
                    complete &= self.divides(dim, pin.named(), written);
                    dims.push(dim);
                    pins.push(pin);
                }
                (Some(_), Some(_)) => {
                    let message = format!("dimension `{}` stands twice", written.name.node);
                    self.error(
                        Diag::error(names::DIMS_DIFFER, message, written.span, "again").help(
                            format!(
                                "write one of them as `{0}'`, a dimension of the size of `{0}`",
                                written.name.node
                            ),
                        ),
                    );
                    complete = false;
                }
                _ => complete = false,
            }
        }
        let unreduced = self.unreduced(layout);
        let pin = Pin { dims: pins, unreduced: unreduced? };
        (complete && self.axes_once(&pin, layout)).then(|| (dims, self.splitting(pin)))
    }

    /// What was written, without axes of one device: two ways to say the same would otherwise be
    /// two shardings, with collectives between them that move nothing.
    fn splitting(&self, pin: Pin) -> Pin {
        let only_splitting = |axes: &AxisList| -> AxisList {
            axes.iter().copied().filter(|axis| axis.size(&self.mesh) > 1).collect()
        };
        let unreduced = Unreduced::new(
            pin.unreduced.kind(),
            pin.unreduced.axes().iter().copied().filter(|axis| axis.size(&self.mesh) > 1),
        );
        Pin {
            dims: pin.dims.iter().map(|pin| pin.with(only_splitting(pin.named()))).collect(),
            unreduced,
        }
    }

    fn unreduced(&mut self, layout: &Layout) -> Option<Unreduced> {
        let mut kind = None;
        let mut axes = AxisList::new();
        for written in &layout.unreduced {
            let this = match written.kind.node.as_str() {
                "max" => Reduction::Max,
                "min" => Reduction::Min,
                _ => Reduction::Sum,
            };
            if kind.is_some_and(|kind| kind != this) {
                let diag = Diag::error(
                    codes::MIXED_KINDS,
                    "a value cannot be a partial sum and a partial maximum or minimum at once",
                    written.span,
                    "another kind",
                );
                self.error(diag.help("reduce one of them first"));
                return None;
            }
            kind = Some(this);
            axes.extend(self.axis_words(&written.axes)?);
        }
        Some(Unreduced::new(kind.unwrap_or_default(), axes))
    }

    fn axes_once(&mut self, pin: &Pin, layout: &Layout) -> bool {
        let mut used: Vec<(AxisRef, Span)> = Vec::new();
        let dims = pin
            .dims
            .iter()
            .zip(&layout.dims)
            .flat_map(|(pin, written)| pin.named().iter().map(|&axis| (axis, written.span)));
        let braces = layout
            .unreduced
            .iter()
            .map(|written| written.span)
            .reduce(Span::to)
            .unwrap_or(layout.span);
        let pending = pin.unreduced.axes().iter().map(|&axis| (axis, braces));
        for (axis, span) in dims.chain(pending) {
            if let Some(&(_, first)) = used.iter().find(|(other, _)| *other == axis) {
                let name = &self.mesh.axes[axis.axis()].name;
                let message = format!("axis `{name}` is used twice in one sharding");
                let diag = Diag::error(codes::AXIS_TWICE, message, span, format!("`{name}` again"))
                    .and(first, format!("`{name}` first"));
                self.error(diag.help(
                    "each mesh axis may split one dimension, or be pending, once: only \
                        diagonal blocks would be known otherwise",
                ));
                return false;
            }
            used.push((axis, span));
        }
        true
    }

    fn divides(&mut self, dim: DimId, axes: &AxisList, written: &DimUse) -> bool {
        let parts = axes.iter().fold(1_u64, |n, axis| n.saturating_mul(axis.size(&self.mesh)));
        let dim = &self.dims[dim];
        if dim.pad || dim.size.is_multiple_of(parts) {
            return true;
        }
        let message = format!("`{}` = {} cannot be split {parts} ways", dim.name, dim.size);
        let diag = Diag::error(
            codes::NOT_DIVISIBLE,
            message,
            written.span,
            format!("{parts} does not divide {}", dim.size),
        );
        let is_given = self.given_sizes.iter().any(|given| given.name == dim.name);
        let size = if is_given { "`--dim` sets another size" } else { "its size" };
        let diag = diag.and(dim.span, size).help(self.split_otherwise(dim, axes));
        self.error(diag);
        false
    }

    /// The dimensions of a product that both factors have and that are not wanted in its result.
    fn uncontracted(&self, value: &Value, wanted: &[DimId]) -> Option<Vec<DimId>> {
        let op = self.ops.iter().find(|op| self.values[op.result].name == value.name)?;
        let extra: Vec<DimId> =
            value.dims.iter().copied().filter(|dim| !wanted.contains(dim)).collect();
        let both = |dim: &DimId| {
            op.operands.iter().all(|operand| self.values[operand.value].dims.contains(dim))
        };
        let is_product = matches!(op.kind, OpKind::Einsum { .. });
        (is_product && !extra.is_empty() && extra.iter().all(both)).then_some(extra)
    }

    /// The help for `h[B, D]` where `h = In + gelu(In *D W)` adds `[B, D]` and `[B, F]`: an operand
    /// has the wanted dimensions, and the other one lacks some of them.
    fn meeting(&self, value: &Value, wanted: &[DimId]) -> Option<String> {
        let op = self.ops.iter().find(|op| self.values[op.result].name == value.name)?;
        let OpKind::Map(_) = &op.kind else { return None };
        let dims = |operand: &Operand| &self.values[operand.value].dims;
        let lacks = |dims: &[DimId], others: &[DimId]| others.iter().any(|of| !dims.contains(of));
        op.operands.iter().find(|operand| dims(operand) == wanted)?;
        let other = op.operands.iter().map(dims);
        let other = other.into_iter().find(|of| lacks(of, wanted) && lacks(wanted, of))?;
        let list = |dims: &[DimId], between: &str| {
            let names: Vec<&str> = dims.iter().map(|&dim| self.dims[dim].name.as_str()).collect();
            names.join(between)
        };
        let extra: Vec<DimId> = other.iter().copied().filter(|of| !wanted.contains(of)).collect();
        let (wanted, other, extra) = (list(wanted, ", "), list(other, ", "), list(&extra, ","));
        Some(format!(
            "[{wanted}] and [{other}] meet, so the result has the dimensions of both; to keep \
                [{wanted}], multiply the other by a parameter first: `(…) *{extra} W`"
        ))
    }

    /// What to do where axes are longer than a dimension: split the rest over another, before
    /// padding.
    fn split_otherwise(&self, dim: &Dim, axes: &AxisList) -> String {
        let pad = format!("pad it: `dim {}={} pad`", dim.name, dim.size);
        let [axis] = axes[..] else {
            return format!("split `{}` over fewer axes, or {pad}", dim.name);
        };
        let (axis, size) = (&self.mesh.axes[axis.axis()].name, axis.size(&self.mesh));
        if !size.is_multiple_of(dim.size) {
            return format!("split it over fewer devices, or {pad}");
        }
        let rest = size / dim.size;
        let second = if axis == "Z" { "W" } else { "Z" };
        format!(
            "divide the axis, `mesh {axis}={}, {second}={rest}`, and split a second dimension over \
                the rest: `{}_{axis}, G_{second}`; or {pad}",
            dim.size, dim.name
        )
    }

    /// Whether brackets name the dimensions of `value`, in its order; reports it if not.
    pub(super) fn same_dims(&mut self, value: ValueId, dims: &[DimId], span: Span) -> bool {
        if self.values[value].dims == dims {
            return true;
        }
        let read = self.read_as_chunk(value);
        let name = self.values[read.unwrap_or(value)].name.clone();
        let value = &self.values[value];
        let list = |dims: &[DimId]| {
            dims.iter().map(|&dim| self.dims[dim].name.as_str()).collect::<Vec<_>>().join(", ")
        };
        let message = {
            let here = if read.is_some() { "in a step of the scan " } else { "" };
            format!("{here}`{name}` is [{}], not [{}]", list(&value.dims), list(dims))
        };
        let diag = Diag::error(names::DIMS_DIFFER, message, span, "these brackets")
            .and(value.span, "defined here");
        let help = match self.uncontracted(value, dims) {
            Some(shared) => {
                let shared = list(&shared).replace(", ", ",");
                format!("both factors have `{shared}`: `*{shared}` contracts it, `*` keeps it")
            }
            None => self.meeting(value, dims).unwrap_or_else(|| {
                format!("write `{name}[{}]` with its subscripts", list(&value.dims))
            }),
        };
        self.error(diag.help(help));
        false
    }
}
