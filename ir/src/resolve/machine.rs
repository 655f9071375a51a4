//! Mesh and dimensions, on the selected hardware.

use crate::codes::{mesh as codes, names};
use shardwise_grammar::ast::{self, AxisDecl, DimDecl, SizeFactor, Statement};
use strum::VariantArray;

use super::overrides::of_option;
use super::{AxisSize, Overrides, Resolver};
use crate::axis_parts::AxisInParts;
use crate::hardware::{Hardware, Wraparound};
use crate::ids::AxisId;
use crate::mesh::{Axis, AxisKind, KindName, Mesh, PhysicalAxis};
use crate::nvlink_domain::{self, Unplaced};
use crate::program::{Dim, Zigzag};
use crate::{Diag, suggest};

/// The largest size, so that sums do not overflow.
pub(super) const LARGEST: u64 = 1 << 63;

impl Resolver<'_> {
    pub(super) fn machine(&mut self, file: &ast::File, overrides: &Overrides) {
        self.misplaced_plan(file);
        self.hardware = self.chip(file, overrides);
        self.mesh(file, overrides);
    }

    fn mesh(&mut self, file: &ast::File, overrides: &Overrides) {
        let mut declared: Vec<(&AxisDecl, Extent)> = Vec::new();
        for statement in &file.statements {
            let Statement::Mesh(axes) = &statement.node else { continue };
            self.mesh_span.get_or_insert(statement.span);
            for axis in axes {
                if declared.len() > Mesh::MAX_AXES {
                    break;
                }
                if let Some(first) =
                    declared.iter().find(|(other, _)| other.name.node == axis.name.node)
                {
                    let diag = Diag::error(
                        names::DUPLICATE,
                        format!("axis `{}` is declared twice", axis.name.node),
                        axis.name.span,
                        "again",
                    );
                    let diag = diag.and(first.0.name.span, "first here");
                    self.error(diag.help("keep one of them, or give it another name"));
                } else {
                    // A wrong axis is still an axis: its uses are no further errors.
                    declared.push((
                        axis,
                        self.axis_decl(axis, overrides).unwrap_or_else(Extent::unknown),
                    ));
                }
            }
        }
        let devices = declared
            .iter()
            .try_fold(1_u64, |n, (_, extent)| n.checked_mul(extent.size))
            .filter(|&n| n < LARGEST);
        let axes: usize = declared.iter().map(|(_, extent)| extent.parts.len().max(1)).sum();
        if axes > Mesh::MAX_AXES || devices.is_none() {
            let diag = Diag::error(
                codes::TOO_MANY,
                "the mesh is larger than any machine",
                self.mesh_span.unwrap_or_default(),
                "this mesh",
            );
            self.error(
                diag.help(format!("at most {} axes and fewer than 2^63 devices", Mesh::MAX_AXES)),
            );
            self.mesh_failed = true;
            return;
        }
        let Some(hardware) = self.hardware.clone() else {
            for (decl, extent) in &declared {
                self.add_axis(decl, unlinked(decl, extent.size), &extent.parts);
            }
            return;
        };
        self.link(&hardware, declared);
    }

    /// Assigns links to every axis.
    fn link(&mut self, hardware: &Hardware, declared: Vec<(&AxisDecl, Extent)>) {
        // An axis of one device is no part of the slice's shape: `X=64, Y=1` wraps where `X=64`
        // does.
        let slice: Vec<u64> = declared
            .iter()
            .filter(|(_, extent)| extent.kind.map(KindName::kind) != Some(AxisKind::Dcn))
            .flat_map(|(_, extent)| extent.physical.iter().copied().filter(|&size| size > 1))
            .collect();
        let unplaced: Vec<Unplaced<'_>> =
            declared.iter().map(|(_, extent)| extent.unplaced()).collect();
        let placed = nvlink_domain::parts(hardware.nvlink_domain(), &unplaced);
        for ((decl, extent), parts) in declared.into_iter().zip(placed) {
            let own = |size| {
                let written = extent.kind.map(KindName::kind);
                written.unwrap_or_else(|| hardware.axis_kind(size, &slice))
            };
            let physical = if hardware.wraparound == Wraparound::Switched {
                parts.iter().map(|part| linked(hardware, part.size, part.kind)).collect()
            } else {
                extent.physical.iter().map(|&size| linked(hardware, size, own(size))).collect()
            };
            let Extent { size, over, kind: written_kind, parts, .. } = extent;
            let axis = Axis { name: decl.name.node.clone(), size, written_kind, over, physical };
            self.without_links(hardware, decl, &axis);
            self.add_axis(decl, axis, &parts);
        }
        self.outgrown_pod(hardware);
    }

    /// Adds an axis to the mesh, or its parts.
    fn add_axis(&mut self, decl: &AxisDecl, axis: Axis, parts: &[u64]) {
        if parts.is_empty() {
            self.mesh.axes.push(axis);
            return;
        }
        let (name, first) = (axis.name.clone(), AxisId::new(self.mesh.axes.len()));
        let Some(in_parts) = AxisInParts::new(axis.clone(), parts, first) else {
            self.parts_do_not_fit(decl, &axis);
            self.mesh.axes.push(axis);
            return;
        };
        let again = in_parts.axes().find(|part| self.mesh.find(&part.name).is_some());
        if let Some(again) = again {
            let message = format!("`{}` is an axis, and a part of `{name}`", again.name);
            let diag = Diag::error(names::DUPLICATE, message, decl.name.span, "in parts");
            self.error(diag.help("give the axis another name"));
        }
        self.mesh.axes.extend(in_parts.axes());
        self.mesh.in_parts.push(in_parts);
    }

    /// Reports links of axes for which the hardware has no rates.
    fn without_links(&mut self, hardware: &Hardware, decl: &AxisDecl, axis: &Axis) {
        let Some(kind) = axis
            .physical
            .iter()
            .map(|part| part.kind)
            .find(|&kind| hardware.bandwidth(kind).is_none())
        else {
            return;
        };
        let message = format!("`{}` has no figure for {} links", hardware.name, kind.name());
        let diag = Diag::error(codes::NO_LINK, message, decl.name.span, "this axis needs it");
        let why = match (
            hardware
                .nvlink_domain()
                .filter(|_| axis.written_kind.is_none() && kind == AxisKind::Dcn),
            axis.across_nodes(),
        ) {
            (None, _) => String::new(),
            (Some(chips), Some((inside, nodes))) => {
                format!(
                    "a domain of {chips} chips fits {inside} along this axis, so it runs \
                        over {nodes} domains; "
                )
            }
            (Some(chips), None) => {
                format!(
                    "it does not fit beside the axes inside it into a domain of {chips} chips, so \
                        it runs between domains; "
                )
            }
        };
        let key = if kind == AxisKind::Dcn { "network_bandwidth" } else { "link_bandwidth" };
        self.error(diag.help(format!(
            "{why}choose hardware that has such links, or give `{key}` in its hardware file"
        )));
    }

    /// The declaration of an axis, with the size and the parts that options give it.
    fn axis_decl(&mut self, axis: &AxisDecl, overrides: &Overrides) -> Option<Extent> {
        let name = &axis.name.node;
        let given = overrides.axis(name);
        let extent = self.axis_extent(axis, given)?;
        let parts = match (given.and_then(|given| given.parts.as_deref()), &axis.parts) {
            (Some(given), _) => self.given_parts(name, given, extent.size)?,
            (None, Some(written)) => {
                self.written_parts(axis, written, extent.size, given.is_some())?
            }
            (None, None) => overrides.parts(name).map(<[u64]>::to_vec).unwrap_or_default(),
        };
        Some(Extent { parts, ..extent })
    }

    /// The extent of an axis; the size `given` by option replaces its own.
    fn axis_extent(&mut self, axis: &AxisDecl, given: Option<&AxisSize>) -> Option<Extent> {
        let written = self.size(&axis.size)?;
        let written_kind = self.axis_kind(axis).ok()?;
        let kind = given.and_then(|given| given.kind).or(written_kind);
        let Some(given) = given else {
            let over = axis.over.as_ref();
            let physical = over.map_or(Some(vec![written]), |over| fold(written, &over.node));
            let Some(physical) = physical else {
                self.does_not_fold(axis, written);
                return None;
            };
            return Some(Extent {
                size: written,
                physical,
                over: over.map(|over| over.node.clone()),
                kind,
                parts: Vec::new(),
            });
        };
        let folded = match (&given.over, &axis.over) {
            (Some(over), _) => {
                fold(given.size, over).map(|physical| (physical, Some(over.clone())))
            }
            (None, Some(over)) => Some(refolded(given.size, &over.node)),
            (None, None) => Some((vec![given.size], None)),
        };
        let Some((physical, over)) = folded else {
            self.given_does_not_fold(given);
            return None;
        };
        Some(Extent { size: given.size, physical, over, kind, parts: Vec::new() })
    }

    /// The kind written for an axis, if any; an error (reported) where another option stands there.
    fn axis_kind(&mut self, axis: &AxisDecl) -> Result<Option<KindName>, ()> {
        let mut kind = None;
        for option in &axis.options {
            kind = KindName::VARIANTS.iter().copied().find(|kind| kind.name() == option.node);
            if kind.is_none() {
                let known = KindName::VARIANTS.iter().map(|kind| kind.name()).chain(["over", "as"]);
                let diag = Diag::error(
                    codes::BAD_AXIS,
                    format!("`{}` is not an option of an axis", option.node),
                    option.span,
                    "unknown",
                );
                let near = suggest::nearest(&option.node, known)
                    .map(|near| format!("did you mean `{near}`?"));
                self.error(diag.help(near.unwrap_or_else(|| {
                    "ring, line, switch (or nvlink), dcn (or ib), over 4x4, or as 8x2".to_owned()
                })));
                return Err(());
            }
        }
        Ok(kind)
    }

    fn does_not_fold(&mut self, axis: &AxisDecl, size: u64) {
        let Some(over) = &axis.over else { return };
        let message = format!(
            "axis `{}` of {size} does not fold over `{}`",
            axis.name.node,
            over_text(&over.node)
        );
        let diag = Diag::error(codes::BAD_AXIS, message, over.span, "not its factors");
        self.error(diag.help(
            "give factors whose product is the size (`X=16 over 4x4`), or how \
            many equal ones (`X=16 over 2`)",
        ));
    }

    fn given_does_not_fold(&mut self, given: &AxisSize) {
        let AxisSize { name, size, over, .. } = given;
        let fold = over.as_deref().map_or(String::new(), over_text);
        let diag = of_option(
            codes::BAD_AXIS,
            format!("axis `{name}` of {size} does not fold over `{fold}`"),
        );
        let (physical, _) = refolded(*size, over.as_deref().unwrap_or_default());
        self.error(diag.help(format!(
            "give factors whose product is {size}: `--mesh \"{name}={size} over {}\"`",
            over_text(&physical)
        )));
    }

    pub(super) fn dims(&mut self, file: &ast::File, overrides: &Overrides) {
        for statement in &file.statements {
            let Statement::Dim(dims) = &statement.node else { continue };
            for decl in dims {
                if let Some(&first) = self.dim_names.get(&decl.name.node) {
                    let diag = Diag::error(
                        names::DUPLICATE,
                        format!("dimension `{}` is declared twice", decl.name.node),
                        decl.name.span,
                        "again",
                    );
                    let diag = diag.and(self.dims[first].span, "first here");
                    self.error(diag.help("keep one of them, or give it another name"));
                    continue;
                }
                let Some(size) = self.size(&decl.size) else {
                    self.bad_dims.insert(decl.name.node.clone());
                    continue;
                };
                let factors = self.product_dims(&decl.size);
                let mut dim = Dim {
                    name: decl.name.node.clone(),
                    size,
                    factors,
                    pad: decl.pad.is_some(),
                    zigzag: None,
                    span: decl.name.span,
                };
                dim.size = self.replaced(&dim, overrides.dim(&dim.name));
                dim.zigzag = self.order_of(decl, &dim);
                self.has_one_reading(&dim);
                let id = self.dims.push(dim);
                self.dim_names.insert(decl.name.node.clone(), id);
            }
        }
    }
}

impl Resolver<'_> {
    /// The order of a dimension: that which its declaration names, or that of the dimension whose
    /// size it has (`S=T`).
    fn order_of(&mut self, decl: &DimDecl, dim: &Dim) -> Option<Zigzag> {
        let Some(written) = &decl.zigzag else {
            let same = match decl.size.product().as_deref() {
                Some([SizeFactor::Dim(name)]) => self.dim_names.get(name),
                _ => None,
            };
            return self.dims[*same?].zigzag.filter(|order| order.fits(dim.size));
        };
        let order = Zigzag { pairs: self.size(&written.node)? };
        let (name, size) = (&dim.name, dim.size);
        let message = if decl.pad.is_some() {
            format!("`{name}` is padded and in zigzag order: pairs of blocks would be unequal")
        } else if order.fits(size) {
            return Some(order);
        } else {
            format!("`{name}`={size} cannot be cut into 2 x {} blocks of equal size", order.pairs)
        };
        let diag = Diag::error(names::BAD_SIZE, message, written.span, "this order");
        self.error(diag.help(match (decl.pad, order.fitting(size)) {
            (Some(_), _) => "leave `pad` out, or `zigzag`".to_owned(),
            (None, Some(fitting)) => format!(
                "`{name}={size} zigzag {}` can: twice the number divides the size",
                fitting.pairs
            ),
            (None, None) => "an odd number has no blocks in pairs: write an even one".to_owned(),
        }));
        None
    }
}

fn unlinked(decl: &AxisDecl, size: u64) -> Axis {
    Axis {
        name: decl.name.node.clone(),
        size,
        written_kind: None,
        over: None,
        physical: vec![PhysicalAxis { size, kind: AxisKind::Line, bandwidth: 1.0, hop_s: 1e-6 }],
    }
}

/// A physical axis on links of `kind`; where the hardware has none, which is an error, at an
/// arbitrary rate.
fn linked(hardware: &Hardware, size: u64, kind: AxisKind) -> PhysicalAxis {
    PhysicalAxis {
        size,
        kind,
        bandwidth: hardware.bandwidth(kind).unwrap_or(1.0),
        hop_s: hardware.hop_of(kind),
    }
}

/// An axis before its links are known.
struct Extent {
    size: u64,
    physical: Vec<u64>,
    /// The fold as it is printed.
    over: Option<Vec<u64>>,
    kind: Option<KindName>,
    /// The sizes of its parts; empty where it is used whole.
    parts: Vec<u64>,
}

impl Extent {
    /// The value for an axis with an error.
    fn unknown() -> Self {
        Self { size: 1, physical: vec![1], over: None, kind: None, parts: Vec::new() }
    }

    fn unplaced(&self) -> Unplaced<'_> {
        Unplaced {
            factors: &self.physical,
            is_folded: self.over.is_some(),
            kind: self.kind.map(KindName::kind),
        }
    }
}

/// The physical axes of `size` devices folded over `over`: these factors, or that many equal ones.
fn fold(size: u64, over: &[u64]) -> Option<Vec<u64>> {
    let factors =
        if let [count] = over { equal_factors(size, *count) } else { Some(over.to_vec()) }?;
    let product = factors.iter().try_fold(1_u64, |n, &factor| n.checked_mul(factor));
    (product == Some(size)).then_some(factors)
}

/// The physical axes of another size on an axis that folds over `over`, and the fold as printed:
/// the same fold where it fits, else as many factors, else a single one.
fn refolded(size: u64, over: &[u64]) -> (Vec<u64>, Option<Vec<u64>>) {
    if let Some(physical) = fold(size, over) {
        return (physical, Some(over.to_vec()));
    }
    let count = if let [count] = over { *count } else { over.len() as u64 };
    match even_factors(size, count) {
        Some(uneven) => (uneven.clone(), Some(uneven)),
        None => (vec![size], None),
    }
}

/// If the size is not such a power: that many factors as close to each other as possible, none of
/// them 1 (512 over 2 is 16x32).
fn even_factors(size: u64, count: u64) -> Option<Vec<u64>> {
    let mut left = size;
    let mut factors = Vec::new();
    for remaining in (1..=u32::try_from(count).ok().filter(|&count| count <= 16)?).rev() {
        let ideal = (left as f64).powf(1.0 / f64::from(remaining)).round() as u64;
        let factor = if remaining == 1 {
            left
        } else {
            (2..=ideal).rev().take(1 << 20).find(|factor| left.is_multiple_of(*factor))?
        };
        factors.push(factor);
        left /= factor;
    }
    (left == 1 && factors.iter().all(|&factor| factor > 1)).then_some(factors)
}

/// `count` equal factors of `size`.
fn equal_factors(size: u64, count: u64) -> Option<Vec<u64>> {
    let count = u32::try_from(count).ok().filter(|&count| (1..=16).contains(&count))?;
    let near = (size as f64).powf(1.0 / f64::from(count)).round() as u64;
    near.checked_pow(count).filter(|&power| power == size).map(|_| vec![near; count as usize])
}

pub(super) fn over_text(factors: &[u64]) -> String {
    factors.iter().map(u64::to_string).collect::<Vec<_>>().join("x")
}
