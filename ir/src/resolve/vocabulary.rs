//! The words of the language, kind by kind, as the tables have them that the resolver reads. The
//! reference has a table for each kind; a test compares the two, so that no page lacks a word.

use shardwise_grammar::keywords::{KEYWORDS, RESERVED};
use strum::VariantArray;

use super::{asserts, attention, convolution, opaque, optimizer, pipeline, route, structure};
use crate::blocks::ValueGroup;
use crate::collectives::Collectives;
use crate::dtype::DType;
use crate::mesh::KindName;
use crate::products::Products;
use crate::program::{CollectiveKind, Fusion};
use crate::rates::Rates;
use crate::stages::Schedule;

/// Words of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vocabulary {
    /// The kind: the heading of its table in the reference.
    pub kind: &'static str,
    /// The words.
    pub words: Vec<&'static str>,
}

/// Calls that are in no table, since they have a syntax or a meaning of their own.
const SPECIAL: [&str; 9] = [
    "cast",
    "broadcast",
    "last",
    "total",
    "split",
    "offload",
    "reload",
    attention::NAME,
    opaque::NAME,
];

/// All words that programs can write, but the functions of [`crate::functions`].
pub fn vocabulary() -> Vec<Vocabulary> {
    let calls = structure::NAMES.into_iter().chain(SPECIAL);
    let synonyms = structure::SYNONYMS.into_iter().map(|(synonym, _)| synonym);
    let mut calls: Vec<&'static str> = calls.chain(synonyms).collect();
    calls.sort_unstable();
    calls.dedup();
    let settings = optimizer::KNOWN.iter().flat_map(|(_, settings)| settings.iter());
    let mut settings: Vec<&'static str> =
        settings.map(|(name, _)| *name).chain(optimizer::DTYPES).collect();
    settings.sort_unstable();
    settings.dedup();
    let kinds = [
        ("Statements", KEYWORDS.to_vec()),
        ("Element types", DType::ALL.map(DType::name).to_vec()),
        ("Kinds of mesh axes", KindName::VARIANTS.iter().map(|kind| kind.name()).collect()),
        ("Rates", Rates::VARIANTS.iter().map(|rates| rates.name()).collect()),
        ("Fusion", Fusion::VARIANTS.iter().map(|fusion| fusion.name()).collect()),
        ("Parts of collectives", Collectives::VARIANTS.iter().map(|parts| parts.name()).collect()),
        ("Products", Products::VARIANTS.iter().map(|products| products.name()).collect()),
        ("Collectives", CollectiveKind::ALL.iter().map(CollectiveKind::name).collect()),
        ("Calls that change or read dimensions", calls),
        ("Options of attention", attention::OPTIONS.to_vec()),
        ("Options of convolutions", convolution::OPTIONS.to_vec()),
        ("Options of routes", route::OPTIONS.to_vec()),
        ("Options of a pipeline", pipeline::OPTIONS.to_vec()),
        ("Schedules of a pipeline", Schedule::ALL.map(Schedule::name).to_vec()),
        ("What checkpoint names", ValueGroup::VARIANTS.iter().map(|it| it.name()).collect()),
        ("Optimizers", optimizer::KNOWN.iter().map(|(name, _)| *name).collect()),
        ("Settings of optimizers", settings),
        ("What assert limits", asserts::TIMES.into_iter().chain(["memory"]).collect()),
    ];
    kinds.into_iter().map(|(kind, words)| Vocabulary { kind, words }).collect()
}

/// The other meaning of a name.
pub(super) fn reserved(name: &str) -> Option<&'static str> {
    match name {
        "inf" => Some("a number"),
        _ if RESERVED.contains(&name) => Some("a keyword"),
        _ => CollectiveKind::find(name).map(|_| "a collective"),
    }
}
