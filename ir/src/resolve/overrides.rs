//! What a caller may override: hardware, axes and sizes. A name that the program does not have is
//! an error without a span, since the source is not at fault; the message lists the names that
//! exist.

use crate::codes::{names, sharding};
use indexmap::IndexSet;
use shardwise_grammar::ast::{self, Statement};

use super::Resolver;
use super::machine::LARGEST;
use crate::collectives::Collectives;
use crate::hardware::Hardware;
use crate::mesh::KindName;
use crate::products::Products;
use crate::program::{Dim, Fusion};
use crate::rates::Rates;
use crate::{Diag, Severity, suggest};

/// Overrides of a caller.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Hardware instead of the program's.
    pub hardware: Option<String>,
    /// Hardware that programs may name beside the presets.
    pub known: Vec<Hardware>,
    /// The rates that times are computed at, instead of the program's.
    pub rates: Option<Rates>,
    /// The price of a chip-hour, instead of the hardware's.
    pub price: Option<f64>,
    /// Which operations run as one kernel.
    pub fusion: Option<Fusion>,
    /// Whether products run beside the collectives next to them.
    pub collectives: Option<Collectives>,
    /// The dtype of products with weights of layers.
    pub products: Option<Products>,
    /// The hardware file that the program names, if it names one.
    pub file: Option<HardwareFile>,
    /// Sizes of axes instead of the program's.
    pub mesh: Vec<AxisSize>,
    /// The sizes of the parts that axes are used in, by name, where the program has them whole.
    pub parts: Vec<(String, Vec<u64>)>,
    /// Sizes of dimensions instead of the program's.
    pub dims: Vec<DimSize>,
    /// Treat the program as explicit.
    pub explicit: bool,
}

/// A hardware file, as far as a program is concerned.
#[derive(Clone, Debug, PartialEq)]
pub struct HardwareFile {
    /// Its path, as the program writes it.
    pub path: String,
    /// The chips that it describes; `None` where it could not be read, which is already reported.
    pub chips: Option<Vec<Hardware>>,
}

impl HardwareFile {
    /// The chip called `name`, which remembers the file.
    pub(super) fn chip(&self, name: &str) -> Option<Hardware> {
        let chip = self.chips.iter().flatten().find(|chip| chip.name == name)?;
        Some(Hardware { file: Some(self.path.clone()), ..chip.clone() })
    }
}

/// `X=16`, `X=16 over 4x4`, `X=4 dcn`, `X=16 as 8x2`: a size for an axis that the program declares.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AxisSize {
    /// The axis.
    pub name: String,
    /// Devices along it.
    pub size: u64,
    /// The physical axes that it folds over (one number: that many); `None` keeps the program's
    /// fold.
    pub over: Option<Vec<u64>>,
    /// The kind of its links; `None` keeps the program's.
    pub kind: Option<KindName>,
    /// The parts that it is used in (one number: whole); `None` keeps the program's parts.
    pub parts: Option<Vec<u64>>,
}

impl AxisSize {
    /// An axis of so many devices, folded and in parts as the program has it.
    pub fn new(name: &str, size: u64) -> Self {
        Self { name: name.to_owned(), size, over: None, kind: None, parts: None }
    }
}

/// `B=4096`: a size for a dimension that the program declares, or a number of layers for its
/// `repeat`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DimSize {
    /// The dimension.
    pub name: String,
    /// Its size.
    pub size: u64,
}

impl Overrides {
    /// The hardware called `name`: among the caller's, then those of the program's file, then
    /// presets.
    pub(super) fn hardware_called(&self, name: &str) -> Option<Hardware> {
        let known = self.known.iter().find(|hardware| hardware.name == name).cloned();
        known.or_else(|| self.file.as_ref()?.chip(name)).or_else(|| Hardware::preset(name))
    }

    /// Everything that programs may name.
    pub(super) fn hardware_names(&self) -> Vec<&str> {
        let presets = Hardware::preset_names().map(|name| name as &str);
        let described = self.file.iter().flat_map(|file| file.chips.iter().flatten());
        self.known
            .iter()
            .chain(described)
            .map(|hardware| hardware.name.as_str())
            .chain(presets)
            .collect()
    }

    pub(super) fn axis(&self, name: &str) -> Option<&AxisSize> {
        self.mesh.iter().find(|axis| axis.name == name)
    }

    pub(super) fn parts(&self, name: &str) -> Option<&[u64]> {
        self.parts.iter().find(|(axis, _)| axis == name).map(|(_, sizes)| &sizes[..])
    }

    pub(super) fn dim(&self, name: &str) -> Option<u64> {
        self.dims.iter().find(|dim| dim.name == name).map(|dim| dim.size)
    }
}

impl Resolver<'_> {
    /// Reports axes and dimensions of options that the program does not have.
    pub(super) fn unknown_overrides(&mut self, file: &ast::File, overrides: &Overrides) {
        let axes: Vec<String> = self.mesh.declared().map(|(axis, _)| axis.name.clone()).collect();
        if !self.mesh_failed {
            for axis in overrides.mesh.iter().filter(|axis| !axes.contains(&axis.name)) {
                self.error(unknown(
                    sharding::UNKNOWN_AXIS,
                    &axis.name,
                    "an axis of the mesh",
                    "axes",
                    &axes,
                ));
            }
        }
        let layers = file.statements.iter().filter_map(|statement| match &statement.node {
            Statement::Repeat(of) => Some(&of.name.node),
            _ => None,
        });
        let dims: IndexSet<String> = self.dim_names.keys().chain(layers).cloned().collect();
        let dims: Vec<String> = dims.into_iter().collect();
        for dim in &overrides.dims {
            if !dims.contains(&dim.name) && !self.bad_dims.contains(&dim.name) {
                self.error(unknown(
                    names::UNKNOWN_DIM,
                    &dim.name,
                    "a dimension of the program",
                    "dimensions",
                    &dims,
                ));
            }
        }
        let sizes = overrides
            .mesh
            .iter()
            .map(|axis| (&axis.name, axis.size))
            .chain(overrides.dims.iter().map(|dim| (&dim.name, dim.size)));
        let wrong: Vec<_> = sizes.filter(|(_, size)| !(1..=LARGEST).contains(size)).collect();
        for (name, size) in wrong {
            let diag = of_option(
                names::BAD_SIZE,
                format!("`{name}={size}`, given by option, is not a size"),
            );
            self.error(diag.help("give a whole number from 1 to 2^63"));
        }
    }

    /// The size of `dim`, which the option `given` replaces; a declared product keeps to its
    /// factors.
    pub(super) fn replaced(&mut self, dim: &Dim, given: Option<u64>) -> u64 {
        let Some(given) = given.filter(|&given| given != dim.size) else { return dim.size };
        if dim.factors.is_empty() {
            return given;
        }
        let factors: Vec<&str> =
            dim.factors.iter().map(|&factor| self.dims[factor].name.as_str()).collect();
        let message = format!(
            "`{}={given}`, given by option, is not the product that `{}` is declared to be",
            dim.name, dim.name
        );
        self.error(
            of_option(names::BAD_SIZE, message)
                .help(format!("give the sizes of {} instead", factors.join(" and "))),
        );
        dim.size
    }
}

/// An error about an option: it has no place in the source.
pub(super) fn of_option(code: &'static str, message: String) -> Diag {
    Diag { code, severity: Severity::Error, message, labels: Vec::new(), help: None, inside: None }
}

fn unknown(code: &'static str, name: &str, what: &str, plural: &str, known: &[String]) -> Diag {
    let near = suggest::nearest(name, known.iter().map(String::as_str));
    let near = near.map_or(String::new(), |near| format!("did you mean `{near}`? "));
    let list = if known.is_empty() {
        format!("the program has no {plural}: declare `{name}` there first")
    } else {
        format!("its {plural} are {}", known.join(", "))
    };
    of_option(code, format!("`{name}`, given by option, is not {what}"))
        .help(format!("{near}{list}"))
}
